"""`harness retry`: chosen runs of a sweep once more, with today's code and settings, through the sweep's own plan."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.commands import targets
from harness.config import grid
from harness.config.compose import compose, project_folder
from harness.config.grid import Sweep, load
from harness.errors import HarnessError, nearest
from harness.planning.plan import Planned, plan
from harness.planning.signature import run_id, signature
from harness.running import apply
from harness.slurm import live, postmortem
from harness.store import evidence
from harness.store.runs import RunState, Store

HELP = "retry runs that failed or stopped: retry SWEEP --failed, retry SWEEP --class oom"
_SHORT_CLASSES = {
    "oom": ("out of GPU memory", "out of host memory"), "gpu-oom": ("out of GPU memory",),
    "host-oom": ("out of host memory",), "timeout": ("time limit",), "node": ("node failure",),
    "nan": ("not a number",), "ray": ("Ray start-up",),
}  # fmt: skip
Wanted = Callable[[RunState, str], bool]
"""(state, class of the last failure) -> whether the run is to be tried again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Runs, and which of their ends."""
    parser.add_argument("runs", nargs="+", metavar="RUNS", help=targets.WHICH)
    parser.add_argument("--failed", action="store_true", help="only runs that failed, not those that were stopped")
    parser.add_argument("--class", dest="cause", help="only failures of this class, such as oom, NCCL, hang")


def run(arguments: argparse.Namespace) -> int:
    """The runs of sweeps, each through its sweep's own plan and submission. Returns the exit code of the worst."""
    store = targets.store()
    runs = targets.runs(store, arguments.runs)
    causes = classes(arguments.cause) if arguments.cause else ()

    def wanted(state: RunState, cause: str) -> bool:
        if causes:
            return state.kind == "failed" and cause in causes
        return state.kind in (("failed",) if arguments.failed else ("failed", "stopped", "unknown", "new"))

    return retry(store, runs, wanted)


def classes(word: str) -> tuple[str, ...]:
    """The classes of failure that a word means. Raises: HarnessError with the nearest ones."""
    known = {name for name, _ in evidence.CLASSES}
    known |= {"hang", "unfinished", "killed", "unknown", "time limit", "node failure"}
    if word in _SHORT_CLASSES:
        return _SHORT_CLASSES[word]
    same = tuple(name for name in known if name.lower() == word.lower().replace("-", " "))
    if not same:
        raise HarnessError(f"--class {word}: {nearest(word, {*known, *_SHORT_CLASSES})}")
    return same


def retry(store: Store, runs: Sequence[str], wanted: Wanted) -> int:
    """Tries the wanted ones of these runs again; a study does so itself. Returns the exit code of the worst sweep.

    Raises: HarnessError where a run can no longer be composed as it was.
    """
    project = project_folder()
    chosen = choose(store, runs, wanted)
    if not chosen:
        print(f"nothing to retry among {len(runs)} runs: see `harness status`")
        return 0
    by_sweep: dict[str, list[str]] = {}
    for run in chosen:
        by_sweep.setdefault(str(store.brief(run).get("sweep", "")), []).append(run)
    codes = [
        _by_study(store, name, group) if name.startswith(grid.STUDIES) else _again(store, name, group, chosen, project)
        for name, group in by_sweep.items()
    ]
    return max(codes)


def choose(store: Store, runs: Sequence[str], wanted: Wanted) -> dict[str, RunState]:
    """The wanted runs and their states, ends that nobody recorded looked up first."""
    seen = live.overview(store, runs)
    for run, s in seen.items():
        if s.handed is not None and s.state.kind in ("failed", "stopped", "unknown"):
            postmortem.complete(store, run)
    chosen = {}
    for run, s in live.overview(store, runs).items():
        attempts = store.attempts(run)
        cause = str(attempts[-1].get("cause", "")) if attempts else ""
        if s.state.kind not in ("done", "running", "queued", "absent") and wanted(s.state, cause):
            chosen[run] = s.state
    return chosen


def _again(store: Store, name: str, group: Sequence[str], chosen: dict[str, RunState], project: Path) -> int:
    sweep, entries = _entries(store, name, group, project)
    anyway = frozenset(run for run in group if chosen[run].kind == "unknown")
    asked = [e if e.id in group else _kept(e) for e in entries]
    return apply.carry_out(sweep, asked, store, project, report=False, anyway=anyway)


def _by_study(store: Store, name: str, group: Sequence[str]) -> int:
    from harness.search import intervention

    return intervention.retry(store, name, group)


def _kept(entry: Planned) -> Planned:
    return replace(entry, action="keep", reason="not asked for") if entry.action in ("add", "retry") else entry


def _entries(store: Store, name: str, group: Sequence[str], project: Path) -> tuple[Sweep, list[Planned]]:
    """The sweep's plan where it still asks for all of the runs, else a plan of their own overrides."""
    if name:
        try:
            sweep = load(name)
            entries = plan(sweep, store, project, functools.partial(live.states, store))
        except HarnessError:
            entries = []  # its file is gone or no longer composes
        if set(group) <= {entry.id for entry in entries}:
            return sweep, entries
    entries = [_planned(store, run, project) for run in group]
    return Sweep("", "", (), {}, None, Path("retry")), entries


def _planned(store: Store, run: str, project: Path) -> Planned:
    overrides = store.brief(run)["overrides"]
    composed = compose(overrides)
    sig = signature(composed, project)
    if run_id(sig) != run:
        raise HarnessError(
            f"run {run}: conf/ or its data have changed, so that its overrides now make run {run_id(sig)}: "
            "apply a sweep that asks for it instead"
        )
    return Planned(run, composed, sig, tuple(overrides), "retry", "asked for", live.states(store, [run])[run])
