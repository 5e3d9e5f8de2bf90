"""`harness status`: the runs, with SLURM's word on them: one squeue call a refresh, however many there are."""

from __future__ import annotations

import argparse
import dataclasses
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from harness.commands import entropy_watch, targets
from harness.running import evaluations, progress
from harness.running.progress import Row
from harness.slurm import live
from harness.store import usage
from harness.store.runs import RunState, Store

if TYPE_CHECKING:
    from rich.live import Live

HELP = "show the state of all runs, or of some: status SWEEP state=failed --watch"
REFRESH_SECONDS = 10.0
_MOST_REASONS = 25
_FEW = 4
"""More runs of one reason are one line."""
_NUMBERS = re.compile(r"[\d_]+")
_STUCK = {
    r"held": "`scontrol release {job}` lets it go",
    r"PartitionTimeLimit|WallDuration|MaxWall": (
        "longer than is allowed: cancel it, and apply the sweep with a smaller cluster.time_limit"
    ),
    r"PartitionNodeLimit|PerJob|PerNode|BadConstraints|NeverSatisfied": (
        "it never starts as it is: cancel it, and apply the sweep with another partition, qos or resources"
    ),
    r"Partition(Down|Inactive)": "the site has closed the partition for now",
    r"ReqNodeNotAvail|ReservationDeleted": "the nodes that it may use are down, reserved or excluded",
}
"""Reasons of SLURM's for jobs that do not start by themselves, and what to do."""
_OVER = ("done", "failed", "stopped", "absent", "new")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Runs, and whether to go on looking."""
    parser.add_argument("runs", nargs="*", metavar="RUNS", help=targets.WHICH)
    parser.add_argument("--watch", action="store_true", help="keep refreshing until nothing is queued or running")
    parser.add_argument(
        "--every", type=float, default=REFRESH_SECONDS, metavar="SECONDS", help="time between refreshes (default: 10)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the table, once or until all is over."""
    store = targets.store()
    runs = targets.runs(store, arguments.runs)
    if not runs:
        print(f"no runs in {store.root} yet: start some with `harness sweep smoke`")
        return 0
    title = " ".join(arguments.runs) or str(store.root)
    if arguments.watch:
        watch(store, runs, title, every=max(1.0, arguments.every))
    else:
        show(store, runs, title)
    study = targets.study(store, arguments.runs)
    if study is not None:
        from harness.search import loop

        print(loop.standing(study))
    return 0


def look(store: Store, runs: Sequence[str]) -> tuple[list[Row], list[RunState]]:
    """(one row a run that has a folder, the states of their evaluations that are not done), by one call of squeue.

    Raises: HarnessError where a folder is damaged.
    """
    seen = live.overview(store, [*runs, *evaluations.unfinished(store, runs)])
    there = {run: s for run, s in seen.items() if s.state.kind != "absent" and not evaluations.is_one(run)}
    flagged = entropy_watch.flags(store.root, [run for run, s in there.items() if s.state.step])
    asked = [s.state for run, s in seen.items() if evaluations.is_one(run)]
    return [_row(store, run, s, flagged) for run, s in there.items()], asked


def _row(store: Store, run: str, seen: live.Seen, flagged: Mapping[str, str]) -> Row:
    plain = progress.row(store, run, seen.state)
    job = seen.job
    waits = job.reason if job is not None and seen.state.kind == "queued" else ""
    left = plain.seconds_left
    if left is None and seen.state.kind == "running" and plain.state.step:
        left = _left(store, run, plain.state.step, plain.state.total)
    hours = None
    if plain.gpus:
        beat = store.heartbeat(run).get("time")
        until = time.time() if seen.state.kind == "running" or not isinstance(beat, int | float) else float(beat)
        hours = usage.gpu_hours(store.attempts(run), plain.gpus, until=until)
    return dataclasses.replace(
        plain, waits=waits, seconds_left=left, gpu_hours=hours, entropy_flag=flagged.get(run, "")
    )


def _left(store: Store, run: str, step: int, total: int) -> float | None:
    """Seconds that the rest takes at the pace of this attempt, its start-up included; None before its first step."""
    attempts = store.attempts(run)
    last = attempts[-1] if attempts else {}
    done = step - int(last.get("from") or 0)
    taken = usage.seconds(last, time.time())
    return (total - step) * taken / done if done > 0 and taken else None


def reasons(shown: Sequence[Row], asked: Sequence[RunState] = ()) -> list[str]:
    """Why runs are where they are, for those that a person may want to act on, and how evaluations get on."""
    told = [(f"{r.id}  {r.label}", r.state.reason) for r in shown if r.state.kind in ("failed", "stopped", "unknown")]
    told += [(f"{r.id}  {r.label}", f"queued, {remedy}") for r in shown if (remedy := _stuck(r))]
    together = _together(told)
    lines = [f"{who}: {why}" for who, why in together[:_MOST_REASONS]]
    if len(together) > _MOST_REASONS:
        lines.append(f"and {len(together) - _MOST_REASONS} more; narrow it: harness status SWEEP state=failed")
    lines += [evaluation(state) for state in asked[:_MOST_REASONS]]
    if len(asked) > _MOST_REASONS:
        lines.append(f"and {len(asked) - _MOST_REASONS} more evaluations; narrow it: harness status RUN")
    return lines


def _stuck(r: Row) -> str:
    """What to do about a run whose job will not start by itself, '' where waiting helps."""
    if r.state.kind != "queued":
        return ""
    if not r.waits:  # it has no job yet
        return r.state.reason if "harness sweep" in r.state.reason else ""
    job = r.state.reason.removeprefix("job ").partition(" ")[0]
    for sign, remedy in _STUCK.items():
        if re.search(sign, r.waits, re.IGNORECASE):
            return f"{r.waits}: {remedy.format(job=job)}"
    return ""


def _together(told: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """One line, the first, for many runs of one reason; numbers of jobs and steps make no difference."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for who, why in told:
        groups.setdefault(_NUMBERS.sub("", why), []).append((who, why))
    lines: list[tuple[str, str]] = []
    for group in groups.values():
        who, why = group[0]
        lines += group if len(group) <= _FEW else [(f"{len(group)} runs such as {who.partition(' ')[0]}", why)]
    return lines


def evaluation(state: RunState) -> str:
    """How an evaluation gets on."""
    reason = state.reason.partition(", step ")[0] if state.kind == "running" else state.reason
    reason = reason.partition(", goes on from ")[0]  # it begins afresh
    return f"{evaluations.label(state.id)}: {state.kind}" + (f", {reason}" if reason else "")


def summary(shown: Sequence[Row]) -> str:
    """Such as `12 done, 3 running, 5 queued; 120.5 GPU-hours`."""
    kinds = ("done", "running", "queued", "stopped", "failed", "unknown", "new")
    counts = [(sum(r.state.kind == kind for r in shown), kind) for kind in kinds]
    text = ", ".join(f"{n} {kind}" for n, kind in counts if n) or "no runs"
    hours = [r.gpu_hours for r in shown if r.gpu_hours is not None]
    return f"{text}; {sum(hours):.1f} GPU-hours" if hours else text


def show(store: Store, runs: Sequence[str], title: str, out: IO[str] | None = None) -> None:
    """Prints the table once."""
    out = out or sys.stdout
    shown, asked = look(store, runs)
    width = shutil.get_terminal_size().columns if out.isatty() else None
    print(progress.plain(shown, f"{title}: {summary(shown)}", colour=out.isatty(), columns=width), file=out)
    for line in reasons(shown, asked):
        print(line, file=out)


def watch(
    store: Store,
    runs: Sequence[str],
    title: str,
    *,
    every: float = REFRESH_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Refreshes until nothing is queued, running or unknown. Without a terminal it prints what changes, as lines."""
    said: dict[str, str] = {}
    live_table = _live() if sys.stdout.isatty() else None
    try:
        while True:
            shown, asked = look(store, runs)
            if live_table is not None:
                size = shutil.get_terminal_size()
                live_table.update(progress.table(shown, f"{title}: {summary(shown)}", size), refresh=True)
            else:
                for r in shown:
                    if said.get(r.id) != r.state.kind:
                        print(progress.line(r), flush=True)
                        said[r.id] = r.state.kind
                for state in asked:
                    if said.get(state.id) != state.kind:
                        print(evaluation(state), flush=True)
                        said[state.id] = state.kind
            if all(state.kind in _OVER for state in (*(r.state for r in shown), *asked)):
                break
            sleep(every)
    finally:
        if live_table is not None:
            live_table.stop()
    for line in reasons(shown, asked):
        print(line)


def _live() -> Live:
    from rich.live import Live

    table = Live(auto_refresh=False)
    table.start()
    return table
