"""Applies a plan on SLURM: snapshot, frozen specs, submission; ends when everything is queued."""

from __future__ import annotations

import functools
import getpass
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from harness.config.grid import Sweep
from harness.errors import HarnessError
from harness.planning import freeze, provenance
from harness.planning.plan import Planned, refreshed, todo
from harness.slurm import admission, backlog, command, live, queue, snapshot, submission, submit
from harness.store.runs import Store


def launcher(entries: Sequence[Planned]) -> str:
    """`slurm` or `local`. Raises: HarnessError where the points of a sweep disagree."""
    wanted = {entry.composed.settings.cluster.launcher for entry in entries}
    if len(wanted) > 1:
        raise HarnessError(
            "cluster: some points ask for slurm and some for local: give all points of a sweep one cluster"
        )
    return wanted.pop() if wanted else "local"


def schedule(
    sweep: Sweep,
    entries: Sequence[Planned],
    store: Store,
    project: Path,
    *,
    trainer: str = freeze.TRAINER,
    anyway: Collection[str] = (),
    left_out: Sequence[str] = (),
) -> submit.Report:
    """Freezes and submits what a plan asks for.

    `left_out`: see harness.planning.freeze. `anyway` are runs in an unknown state to be submitted all the same:
    a job of theirs that turns up later ends at once. Runs that a submit limit kept back are frozen anew: what kept
    them may have been mended.
    Raises: as harness.slurm.submit does; HarnessError where the store cannot be written, or a job would never start.
    """
    freeze.check_writable(store.root)
    admission.check(entries)
    with submission.gate(store.root) as lock:
        submit.recover(store)
        if anyway and not (asked := queue.ask([getpass.getuser()])).answered:
            raise command.Unavailable(f"{asked.trouble}; what is unknown is submitted again only where squeue answers")
        kept_back = {run for runs in backlog.mine(store.root).values() for run in runs}
        fresh = [
            _again(entry, anyway, kept_back) for entry in refreshed(entries, functools.partial(live.states, store))
        ]
        collected = provenance.collect(project)
        code = snapshot.take(project, store.root)
        record = {**collected.record, "snapshot": str(code)}
        freeze.freeze(sweep, fresh, store, project, replace(collected, record=record), trainer, left_out=left_out)
        runs = list(dict.fromkeys(entry.id for entry in todo(fresh)))
        report = submit.submit(store, runs, sweep.name, lock=lock, anyway=bool(anyway))
    faster = [e for e, before in zip(fresh, entries, strict=True) if before.action != e.action and e.action == "keep"]
    report.left |= {entry.id: entry.reason for entry in faster}
    return report


def _again(entry: Planned, anyway: Collection[str], kept_back: Collection[str]) -> Planned:
    unknown = entry.id in anyway and entry.state.kind == "unknown"
    waits = entry.id in kept_back and entry.action == "keep" and entry.state.kind == "queued"
    return replace(entry, action="retry") if unknown or waits else entry


def told(report: submit.Report, name: str) -> list[str]:
    """What to print at the end of a submission."""
    lines = list(submit.summary(report)) or ["nothing to submit"]
    if report.jobs and name:
        lines.append(f"watch: harness status {name} --watch    cancel: harness cancel {name}")
    return lines
