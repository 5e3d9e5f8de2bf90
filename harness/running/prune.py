"""Runs that a sweep no longer asks for, while they are queued or run."""

from __future__ import annotations

from collections.abc import Sequence

from harness import files
from harness.config.grid import Sweep
from harness.errors import HarnessError
from harness.planning.plan import Planned
from harness.running import cancel
from harness.slurm import live
from harness.store.runs import Store, ids_of


def left_out(store: Store, sweep: Sweep, entries: Sequence[Planned]) -> list[str]:
    """Runs that were submitted for the sweep, that nobody asks for now, and that are queued or run."""
    if not sweep.name:
        return []
    gone = _submitted(store, sweep.name) - {entry.id for entry in entries}
    if gone:
        gone -= _asked_elsewhere(store, sweep.name)
    seen = live.overview(store, sorted(gone))
    return [run for run, s in seen.items() if s.state.kind in ("queued", "running")]


def _submitted(store: Store, sweep: str) -> set[str]:
    """Runs that the sweep asked for when it was last applied, or that earlier versions of it have left unpruned."""
    try:
        return {*ids_of(store, sweep), *files.read_mapping(store.sweep_file(sweep)).get("left_out", ())}
    except HarnessError:
        return set()  # never applied, or damaged: applying writes it anew


def _asked_elsewhere(store: Store, name: str) -> set[str]:
    """Raises: HarnessError where the record of another sweep is damaged: what it asks for must not be cancelled."""
    mine = store.sweep_file(name)
    others = [path for path in mine.parent.glob("*.json") if path != mine]
    return {run for path in others for run in ids_of(store, path.stem.replace("--", "/"))}


def prune(store: Store, runs: Sequence[str], *, agreed: bool) -> list[str]:
    """Cancels runs that were left out of the grid, or says how to. Returns lines for people."""
    if not runs:
        return []
    labels = [f"  {run}  {store.spec(run)['label']}" for run in runs]
    if not agreed:
        what = "1 run is" if len(runs) == 1 else f"{len(runs)} runs are"
        return [f"{what} no longer in the grid but queued or running; --prune cancels that:", *labels]
    told = cancel.cancel(store, runs)
    return [f"no longer in the grid, cancelled: {run} ({what})" for run, what in told.items()]
