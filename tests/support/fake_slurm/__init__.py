"""A SLURM to play with in unit tests: stand-in programs on PATH, and jobs that the test moves by hand."""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr", "sinfo", "srun")


class FakeSlurm:
    """`install` puts the programs on PATH; the rest reads and changes their state."""

    def __init__(self, folder: Path, monkeypatch):
        self.folder = folder
        monkeypatch.setenv("FAKE_SLURM", str(folder))
        self._monkeypatch = monkeypatch
        self.bin = folder / "bin"

    def install(self, path: str) -> None:
        self.bin.mkdir(parents=True)
        script = Path(__file__).with_name("programs.py")
        for name in PROGRAMS:
            # -S -E: no site packages, a start of 10 ms
            (self.bin / name).write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {script} {name} "$@"\n')
            (self.bin / name).chmod(0o755)
        self._monkeypatch.setenv("PATH", f"{self.bin}:{path}")

    def _state(self):
        from tests.support.fake_slurm.programs import State

        return State()

    @property
    def jobs(self):
        with self._state() as state:
            return dict(state["jobs"])

    def calls(self, program):
        with self._state() as state:
            return [call[1:] for call in state["calls"] if call[0] == program]

    def forget_calls(self):
        with self._state() as state:
            state["calls"].clear()

    def wish(self, **wishes):
        with self._state() as state:
            state["wishes"].update(wishes)

    def configure(self, **values):
        with self._state() as state:
            state["config"].update(values)

    def set(self, job, state, **fields):
        """Moves a job: `RUNNING` with node=, an end, or `forgotten` by squeue and sacct alike."""
        with self._state() as all_of_it:
            all_of_it["jobs"][job] |= {"state": state, "reason": "None", **fields}

    def leave_queue(self, job, state, **fields):
        """Ends a job so long ago that only accounting remembers."""
        self.set(job, state, left_queue=True, **fields)

    def requeue(self, job, seconds=60):
        """SLURM's own requeue: the attempt is history, the job waits again."""
        with self._state() as state:
            entry = state["jobs"][job]
            old = {"state": "REQUEUED", "exit": "0:0", "seconds": seconds, "node": entry["node"]}
            entry.setdefault("before", []).append(old)
            entry |= {"state": "PENDING", "reason": "BeginTime", "node": "", "seconds": 0}
