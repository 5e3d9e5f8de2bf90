"""`harness logs RUN [-f] [--eval [STEP]]`: the log of a run, as it grows."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.commands import targets
from harness.errors import HarnessError, nearest
from harness.running import evaluations
from harness.slurm import live, submission
from harness.store.runs import Store

HELP = "show the log of a run; -f follows it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, and which of its logs."""
    parser.add_argument("runs", nargs="+", metavar="RUNS", help=targets.WHICH)
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing as the log grows")
    parser.add_argument("-n", "--lines", type=int, default=100, help="how many lines to show (default: 100)")
    parser.add_argument("--attempt", type=int, help="show this attempt (default: the last)")
    parser.add_argument(
        "--eval", type=int, nargs="?", const=-1, metavar="STEP", help="show an evaluation's log (default: the latest)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the end of a log, and with -f what is added to it."""
    store = targets.store()
    run = targets.one(store, arguments.runs)
    if arguments.eval is not None:
        run = _evaluation(store, run, arguments.eval)
    path = log_of(store, run, arguments.attempt)
    if path is None:
        state = live.overview(store, [run])[run].state
        if not arguments.follow:
            raise HarnessError(f"run {run} has no log yet: {state.kind}, {state.reason}")
        print(f"{run} {state.kind}: {state.reason}", flush=True)
    show(lambda: log_of(store, run, arguments.attempt), arguments.lines, arguments.follow, lambda: _over(store, run))
    return 0


def _evaluation(store: Store, run: str, step: int) -> str:
    """Name of the run's evaluation at a step, of the latest for -1. Raises: HarnessError where there is none."""
    found = {evaluations.parts(e)[1]: e for e in evaluations.every(store, [run])}
    if step >= 0 and step in found:
        return found[step]
    if step < 0 and found:
        return max(found.values(), key=lambda e: (store.folder(e) / "spec.json").stat().st_mtime)
    there = ", ".join(map(str, found)) or "none"
    asked = f"no evaluation of step {step}" if step >= 0 else "no evaluation"
    raise HarnessError(f"run {run} has {asked} (there: {there}): `harness eval {run}` makes one")


def log_of(store: Store, run: str, attempt: int | None) -> Path | None:
    """The log of an attempt, the last one by default; before the trainer's first word, that of the SLURM job."""
    numbers = [int(record["attempt"]) for record in store.attempts(run)]
    if attempt is not None and attempt not in numbers:
        raise HarnessError(
            f"run {run} has no attempt {attempt}; {nearest(str(attempt), map(str, numbers)) or 'none yet'}"
        )
    chosen = attempt or (numbers[-1] if numbers else None)
    path = store.folder(run) / "attempts" / f"{chosen or 0:03d}" / "stdout.log"
    if chosen is not None and path.exists():
        return path
    held = live.handed(store, [run]).get(run)
    if held is None or held.job is None:
        return None
    written = sorted((submission.folder(store.root, held.record.key) / "logs").glob(f"{held.job}.*"))
    return next((p for p in reversed(written) if p.stat().st_size), None)


def show(path: Callable[[], Path | None], lines: int, follow: bool, over: Callable[[], bool]) -> None:
    """Prints the end of a log, and what is added while `follow`; a later attempt's log takes its place."""
    current, at = path(), 0
    if current is not None:
        print(f"==> {current} <==", flush=True)
        text = current.read_bytes()
        at = len(text)
        sys.stdout.write("\n".join(text.decode("utf-8", "replace").splitlines()[-lines:]) + "\n")
    with contextlib.suppress(KeyboardInterrupt):
        while follow:
            sys.stdout.flush()
            ended = over()
            latest = path()
            if latest is not None and latest != current:
                current, at = latest, 0
                print(f"==> {current} <==")
            if current is not None:
                with current.open("rb") as file:
                    file.seek(at)
                    added = file.read()
                at += len(added)
                sys.stdout.write(added.decode("utf-8", "replace"))
            if ended:
                return
            time.sleep(0.5)


def _over(store: Store, run: str) -> bool:
    return live.overview(store, [run])[run].state.kind in ("done", "failed", "stopped")
