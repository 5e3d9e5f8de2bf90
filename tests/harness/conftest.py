"""A project and a store of its own for every test that plans or launches; the trainer is a stand-in."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness import compose, sweep

FAKE = "tests.support.fake_trainer"


APPLY = (
    "import sys; from pathlib import Path; from harness import sweep; from harness.apply import apply\n"
    "sweep.folder = lambda: Path(sys.argv[1])\n"
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
        monkeypatch.setattr(sweep, "folder", lambda: self._sweeps)

    def sweep(self, text, name="study"):
        (self._sweeps / f"{name}.yaml").write_text(text)

    def file(self, name="study"):
        return self._sweeps / f"{name}.yaml"

    def wish(self, **wishes):
        self._monkeypatch.setenv("FAKE_TRAINER", json.dumps(wishes))

    def apply(self, name="study"):
        from harness.apply import apply

        return apply(name, report=False, trainer=FAKE)

    def start(self):
        """`apply` in a process of its own, with its output in one pipe."""
        command = [sys.executable, "-c", APPLY, str(self._sweeps)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    @property
    def store(self):
        from harness.store import Store

        return Store(self.runs)

    def plan(self, name="study"):
        from harness.plan import plan

        return plan(sweep.load(name), self.store, compose.project_folder())


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return Lab(tmp_path, monkeypatch)
