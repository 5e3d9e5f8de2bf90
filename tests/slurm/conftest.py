"""The real cluster that tests of submission and of jobs share."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, missing


@pytest.fixture(scope="session")
def slurm_cluster():
    """A SLURM of 4 logical nodes, up for the whole session; skipped where there can be none."""
    if reason := missing():
        if os.environ.get("HARNESS_REQUIRE_SLURM"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Not pytest's folder: its path is private to root and too long for a socket's name.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    cluster = Cluster(folder, bound=True)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
