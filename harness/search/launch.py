"""Starts the runs of a study: processes of this machine, or jobs of SLURM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness import files
from harness.config import machine
from harness.config.grid import Sweep
from harness.config.settings import Resources
from harness.errors import HarnessError
from harness.planning import freeze, provenance
from harness.planning.plan import Planned
from harness.running import supervise
from harness.slurm import live, schedule
from harness.store import claim
from harness.store.runs import RunState, Store

LOST_SECONDS = 1800.0
"""A job that neither queue nor accounting has known for so long is submitted again; a late one ends at once."""


class Launcher(Protocol):
    """How runs are started here."""

    poll_seconds: float

    def ended(self) -> bool:
        """Whether a run has ended that `states` has not yet told; False where only `states` can know."""

    def states(self, runs: Sequence[str]) -> Mapping[str, RunState]:
        """The state of each run."""

    def start(self, sweep: Sweep, entries: Sequence[Planned], again: Sequence[str]) -> Collection[str]:
        """Freezes and starts the entries that are to be added or retried; `again` are lost ones among them.

        Returns the runs that were started, or handed to the queue.
        """


class Local:
    """As many runs at once as the machine holds, each under its own supervisor.

    A study that is ticked by cron (`detached`) leaves its supervisors behind; otherwise they save and end with it.
    Which process works on a run, and on which GPUs, is noted beside the journal.
    """

    poll_seconds = 2.0

    def __init__(
        self, store: Store, folder: Path, project: Path, *, detached: bool, trainer: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._store, self._project, self._detached, self._trainer = store, project, detached, trainer
        self._record = folder / "local.json"
        self._environment = dict(environment or {})
        self._children: list[subprocess.Popen[bytes]] = []

    def ended(self) -> bool:
        """Whether a supervisor of ours is gone."""
        return any(child.poll() is not None for child in self._children)

    def states(self, runs: Sequence[str]) -> Mapping[str, RunState]:
        """From the files; a supervisor that was started a moment ago counts before its claim is there."""
        self._children = [child for child in self._children if child.poll() is None]
        working = self._working()
        states = {run: self._store.state(run) for run in runs}
        return {
            run: RunState(run, "running", s.step, s.total, s.attempts, f"process {working[run]['pid']}")
            if s.kind in ("new", "stopped", "failed") and run in working else s
            for run, s in states.items()
        }  # fmt: skip

    def _working(self) -> dict[str, dict[str, object]]:
        try:
            known = files.read_json(self._record)
            return {run: w for run, w in known.items() if claim.process_start(int(w["pid"])) == w["started"]}
        except (FileNotFoundError, HarnessError, AttributeError, KeyError, TypeError, ValueError):
            return {}  # none, or damaged: the runs' own claims keep them from being started twice

    def start(self, sweep: Sweep, entries: Sequence[Planned], again: Sequence[str]) -> Collection[str]:
        """Starts what fits now; the rest is asked for again at the next tick."""
        working = self._working()
        free = machine.survey()
        for run, noted in working.items():
            need = _need(self._store, run)
            busy = {str(gpu) for gpu in noted.get("gpus", [])}  # type: ignore[attr-defined]
            left = tuple(gpu for gpu in free.gpus if gpu not in busy)
            free = machine.Machine(max(0, free.cpus - need.cpus), free.memory_gb, left)
        fitting: dict[str, tuple[tuple[str, ...], bool]] = {}
        for entry in entries:
            if entry.action not in ("add", "retry") or entry.id in working:
                continue
            need = entry.composed.settings.model.resources
            machine.check(machine.survey(), need, entry.label)
            if not working and not fitting:
                need = machine.shared(free, need)
            if free.fits(need):
                free, gpus = free.take(need)
                fitting[entry.id] = gpus, bool(need.gpus)
        if fitting:
            collected = provenance.collect(self._project)
            freeze.freeze(sweep, entries, self._store, self._project, collected, self._trainer)
        for run, (gpus, pinned) in fitting.items():
            working[run] = self._supervise(run, gpus, pinned)
            files.write_json(self._record, working)
        return fitting

    def _supervise(self, run: str, gpus: Sequence[str], pinned: bool) -> dict[str, object]:
        environment = {**os.environ, **self._environment}
        if pinned:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.running.supervise", str(self._store.folder(run))], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=None if self._detached else supervise.die_with_parent(signal.SIGTERM),
        )  # fmt: skip
        self._children.append(process)
        return {"pid": process.pid, "started": claim.process_start(process.pid), "gpus": list(gpus)}

    def stop(self, seconds: float) -> None:
        """Asks the runs to save and stop, and waits for them."""
        for child in self._children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while any(child.poll() is None for child in self._children) and time.monotonic() < deadline:
            time.sleep(0.2)


class Slurm:
    """Jobs; they need no process of ours while they wait and work."""

    poll_seconds = 30.0

    def __init__(self, store: Store, project: Path, trainer: str) -> None:
        self._store, self._project, self._trainer = store, project, trainer

    def ended(self) -> bool:
        """Nobody tells us; the queue is asked at every tick."""
        return False

    def states(self, runs: Sequence[str]) -> Mapping[str, RunState]:
        """One squeue call for all; a job nobody knows any more is `lost` after a while."""
        found = {}
        for run, seen in live.overview(self._store, list(runs)).items():
            state, handed = seen.state, seen.handed
            late = handed is not None and time.time() - handed.record.time > LOST_SECONDS
            if state.kind == "unknown" and late and not seen.silent:
                state = RunState(run, "lost", state.step, state.total, state.attempts, state.reason)
            found[run] = state
        return found

    def start(self, sweep: Sweep, entries: Sequence[Planned], again: Sequence[str]) -> Collection[str]:
        """Submits one array of what is to be started."""
        schedule.schedule(sweep, entries, self._store, self._project, trainer=self._trainer, anyway=again)
        return [entry.id for entry in entries if entry.action in ("add", "retry")]


def _need(store: Store, run: str) -> Resources:
    from harness.config.typed import construct

    need: Resources = construct(Resources, store.spec(run)["config"]["model"]["resources"])
    return need
