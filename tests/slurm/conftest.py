"""The real cluster that tests of submission and of jobs share."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, missing
from tests.slurm.lab import Lab

NODES = 8
"""Cheap ones: a slurmd each. Every test that breaks something breaks its own."""


@pytest.fixture(scope="session")
def slurm_cluster():
    """A SLURM of 8 logical nodes, up for the whole session; skipped where there can be none."""
    if reason := missing():
        if os.environ.get("HARNESS_REQUIRE_SLURM"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Not pytest's folder: its path is private to root and too long for a socket's name.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    cluster = Cluster(folder, nodes=NODES, bound=True)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm_lab(slurm_cluster, tmp_path_factory):
    """One store of runs for the session."""
    return Lab(tmp_path_factory.mktemp("store"), slurm_cluster)


@pytest.fixture
def in_cluster(slurm_cluster):
    """This process sees the cluster."""
    with slurm_cluster.here():
        yield slurm_cluster
