"""Applies a plan on SLURM: snapshot, frozen specs, submission; ends when everything is queued."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from harness import files, freeze, provenance
from harness.errors import HarnessError
from harness.plan import Planned, refreshed, todo
from harness.slurm import cancel, live, snapshot, submission, submit
from harness.store import Store, ids_of
from harness.sweep import Sweep


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
) -> submit.Report:
    """Freezes and submits what a plan asks for.

    `anyway` are runs in an unknown state that are to be submitted all the same: a job of theirs that turns up later
    ends at once. Raises: as harness.slurm.submit does; HarnessError where the store cannot be written.
    """
    freeze.check_writable(store.root)
    with submission.gate(store.root) as lock:
        submit.recover(store)
        fresh = [_again(entry) if entry.id in anyway else entry for entry in refreshed(entries, store)]
        collected = provenance.collect(project)
        code = snapshot.take(project, store.root)
        record = {**collected.record, "snapshot": str(code)}
        freeze.freeze(sweep, fresh, store, project, replace(collected, record=record), trainer)
        runs = list(dict.fromkeys(entry.id for entry in todo(fresh)))
        report = submit.submit(store, runs, sweep.name, lock=lock, anyway=bool(anyway))
    faster = [e for e, before in zip(fresh, entries, strict=True) if before.action != e.action and e.action == "keep"]
    report.left |= {entry.id: entry.reason for entry in faster}
    return report


def _again(entry: Planned) -> Planned:
    return replace(entry, action="retry") if entry.state.kind == "unknown" else entry


def left_out(store: Store, sweep: Sweep, entries: Sequence[Planned]) -> list[str]:
    """Runs that the sweep asked for when it was last applied, that nobody asks for now, and that are queued or run."""
    if not sweep.name:
        return []
    try:
        before = set(ids_of(store, sweep.name))
    except HarnessError:
        return []  # never applied
    gone = before - {entry.id for entry in entries} - _asked_elsewhere(store, sweep.name)
    seen = live.overview(store, sorted(gone))
    return [run for run, s in seen.items() if s.state.kind in ("queued", "running")]


def _asked_elsewhere(store: Store, name: str) -> set[str]:
    mine = store.sweep_file(name)
    asked: set[str] = set()
    for path in mine.parent.glob("*.json"):
        if path != mine:
            asked |= {str(point["id"]) for point in files.read_json(path).get("points", ())}
    return asked


def prune(store: Store, runs: Sequence[str], *, agreed: bool) -> list[str]:
    """Cancels runs that were left out of the grid, or says how to. Returns lines for people."""
    if not runs:
        return []
    labels = [f"  {run}  {store.spec(run)['label']}" for run in runs]
    if not agreed:
        return [f"{len(runs)} runs are no longer in the grid but queued or running; --prune cancels them:", *labels]
    told = cancel.cancel(store, runs)
    return [f"no longer in the grid, cancelled: {run} ({what})" for run, what in told.items()]


def told(report: submit.Report, name: str) -> list[str]:
    """What to print at the end of a submission."""
    lines = list(submit.summary(report)) or ["nothing to submit"]
    if report.jobs and name:
        lines.append(f"watch: harness status {name} --watch    cancel: harness cancel {name}")
    return lines
