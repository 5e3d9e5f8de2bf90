"""Runs a sweep on this machine: as many runs at once as fit, each under its own supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.config.machine import Machine, check, shared
from harness.config.settings import Resources
from harness.running import supervise
from harness.store import claim
from harness.store.attempt import EXIT_CLAIMED, EXIT_DONE, EXIT_STOPPED
from harness.store.runs import Store

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """A run that is to be done, and what it takes."""

    id: str
    label: str
    need: Resources


class Watcher(Protocol):
    """Shows how the runs get on."""

    def update(self, running: Sequence[str], waiting: int) -> None:
        """Called twice a second with the ids of the runs that are being worked on."""


@dataclass(slots=True)
class _Slot:
    process: subprocess.Popen[bytes]
    need: Resources
    gpus: tuple[str, ...]


@dataclass(slots=True)
class Outcome:
    """What became of the jobs."""

    failed: list[str] = field(default_factory=list)
    """Ids, in the order in which they failed."""
    interrupted: bool = False


class LocalLauncher:
    """Starts supervisors while resources last and collects them. One instance a sweep."""

    def __init__(
        self, store: Store, machine: Machine, *, most: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._store = store
        self._free = machine
        self._most = most
        self._environment = dict(environment or {})
        self._slots: dict[str, _Slot] = {}

    def run(self, jobs: Sequence[Job], stop: supervise.StopRequest, watcher: Watcher) -> Outcome:
        """Runs all jobs to their end; a failed one does not stop the others.

        A job that another process works on is waited for, and taken over should that process die. Raises: HarnessError
        where a job can never fit this machine.
        """
        for job in jobs:
            check(self._free, job.need, job.label)
        needs = {job.id: shared(self._free, job.need) for job in jobs}
        waiting = [job.id for job in jobs]
        outcome = Outcome()
        asked = 0
        try:
            while waiting or self._slots:
                if stop.count > asked:
                    asked = stop.count
                    outcome.interrupted = True
                    waiting.clear()
                    self._signal(signal.SIGTERM)
                self._collect(waiting, outcome)
                self._start_what_fits(waiting, needs, outcome)
                watcher.update(list(self._slots), len(waiting))
                time.sleep(_POLL_SECONDS)
        finally:
            self._signal(signal.SIGTERM)  # after an error of ours: the runs save and end
        return outcome

    def _start_what_fits(self, waiting: list[str], needs: Mapping[str, Resources], outcome: Outcome) -> None:
        for run in list(waiting):
            if self._most is not None and len(self._slots) >= self._most:
                return
            if not self._free.fits(needs[run]):
                continue
            folder = self._store.folder(run)
            if claim.owner(folder) is not None:
                continue  # somebody else's; look again next time
            waiting.remove(run)
            if not (folder / "done.json").exists():
                self._start(run, needs[run])

    def _start(self, run: str, need: Resources) -> None:
        self._free, gpus = self._free.take(need)
        environment = {**os.environ, **self._environment}
        if need.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.running.supervise", str(self._store.folder(run))],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            # A process group of its own: Ctrl-C reaches us alone and we ask the runs to stop, once.
            start_new_session=True, preexec_fn=supervise.die_with_parent(signal.SIGTERM),
        )  # fmt: skip
        self._slots[run] = _Slot(process, need, gpus)

    def _collect(self, waiting: list[str], outcome: Outcome) -> None:
        for run, slot in list(self._slots.items()):
            code = slot.process.poll()
            if code is None:
                continue
            del self._slots[run]
            self._free = self._free.give_back(slot.need, slot.gpus)
            if code == EXIT_CLAIMED:
                waiting.append(run)  # another process was faster
            elif code not in (EXIT_DONE, EXIT_STOPPED):
                outcome.failed.append(run)

    def _signal(self, number: signal.Signals) -> None:
        for slot in self._slots.values():
            if slot.process.poll() is None:
                slot.process.send_signal(number)
