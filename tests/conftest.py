"""How `make test` divides the tests among processes, and what tests of every room share."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.support.fake_slurm import FakeSlurm
from tests.support.lab import Lab

settings.register_profile("unhurried", deadline=None)  # a busy machine is no fault
settings.load_profile("unhurried")

TRAINING = {"test_end_to_end", "test_kl_run", "test_runs", "test_combinations", "test_real"}
"""Modules that run the real trainer, which fills a machine of two cores by itself."""


class Queues(LoadScopeScheduling):
    """One process takes the tests on the real cluster, which mostly wait, one those with the real trainer; of all other
    files each goes to one process. (xdist's own groups are lost with pytest 9.2, which ignores a changed node id.)
    """

    def _split_scope(self, nodeid: str) -> str:
        path = PurePosixPath(nodeid.partition("::")[0])
        if path.is_relative_to("tests/cluster"):
            return "cluster"
        return "training" if path.stem in TRAINING else str(path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Queues | None:
    return Queues(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A store and sweeps of its own; the trainer is a stand-in."""
    return Lab(tmp_path, monkeypatch)


@pytest.fixture
def slurm(lab, tmp_path, monkeypatch):
    """The stand-in SLURM, with the lab around it."""
    monkeypatch.delenv("HARNESS_CLUSTER")
    fake = FakeSlurm(tmp_path / "slurm", monkeypatch)
    fake.install(os.environ["PATH"])
    return fake
