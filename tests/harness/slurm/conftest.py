"""The stand-in SLURM, with the lab of plans and launches around it."""

from __future__ import annotations

import os

import pytest

from tests.support.fake_slurm import FakeSlurm


@pytest.fixture
def slurm(lab, tmp_path, monkeypatch):
    monkeypatch.delenv("HARNESS_CLUSTER")
    fake = FakeSlurm(tmp_path / "slurm", monkeypatch)
    fake.install(os.environ["PATH"])
    return fake
