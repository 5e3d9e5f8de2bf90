"""A project and a store of its own for every test that plans or launches; the trainer is a stand-in."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

from harness.config import compose, grid
from harness.slurm import live

FAKE = "tests.support.fake_trainer"


APPLY = (
    "import sys; from pathlib import Path; from harness.config import grid; from harness.running.apply import apply\n"
    "grid.folder = lambda: Path(sys.argv[1])\n"
    f"sys.exit(apply('study', report=False, trainer={FAKE!r}))"
)


class Lab:
    """One store with sweeps that the test writes; `apply` runs them with the stand-in trainer."""

    def __init__(self, folder, monkeypatch):
        self.runs = folder / "runs"
        self._sweeps = folder / "sweeps"
        self._sweeps.mkdir()
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("HARNESS_RUNS", str(self.runs))
        monkeypatch.setenv("HARNESS_CACHE", str(folder / "cache"))
        monkeypatch.setenv("HARNESS_CLUSTER", "local")  # whatever this machine has, no test submits to it
        monkeypatch.setattr(grid, "folder", lambda: self._sweeps)

    def sweep(self, text, name="study"):
        (self._sweeps / f"{name}.yaml").write_text(text)

    def file(self, name="study"):
        return self._sweeps / f"{name}.yaml"

    def wish(self, **wishes):
        self._monkeypatch.setenv("FAKE_TRAINER", json.dumps(wishes))

    def apply(self, name="study"):
        from harness.running.apply import apply

        return apply(name, report=False, trainer=FAKE)

    def start(self):
        """`apply` in a process of its own, with its output in one pipe."""
        command = [sys.executable, "-c", APPLY, str(self._sweeps)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    @property
    def store(self):
        from harness.store.runs import Store

        return Store(self.runs)

    def plan(self, name="study"):
        from harness.planning.plan import plan

        return plan(grid.load(name), self.store, compose.project_folder(), functools.partial(live.states, self.store))
