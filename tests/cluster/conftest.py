"""The real cluster that tests of submission and of jobs share."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from harness.planning.freeze import TRAINER
from tests.cluster.cluster import Cluster, missing
from tests.cluster.lab import Lab, wait

NODES = 8
"""Cheap ones: a slurmd each. Every test that breaks something breaks its own."""


def _folder() -> Path:
    """For a cluster; skips, or fails where it must not, where there can be none."""
    if reason := missing():
        if os.environ.get("HARNESS_REQUIRE_SLURM"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Not pytest's folder: its path is private to root and too long for a socket's name.
    return Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))


@pytest.fixture(scope="session")
def slurm_cluster():
    """A SLURM of 8 logical nodes, up for the whole session; skipped where there can be none."""
    folder = _folder()
    cluster = Cluster(folder, nodes=NODES, bound=True)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def strict_cluster():
    """A small SLURM that enforces limits, takes arrays of two tasks at most, and has memory cgroups where it can."""
    folder = _folder()
    cluster = Cluster(folder, nodes=2, bound=True)
    try:
        cluster.up(strict=True, max_array=3)
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm_lab(slurm_cluster, tmp_path_factory):
    """One store of runs for the session."""
    return Lab(tmp_path_factory.mktemp("store"), slurm_cluster)


@pytest.fixture(scope="session")
def verl_runs(slurm_lab):
    """(run, job) of two real trainings. They take minutes, so they begin early.

    The first runs on one node and is told to stop after a step, as SLURM does ahead of a time limit; a real one cannot
    be shorter than the start of verl on a busy machine. The second runs on two nodes.
    """
    small = ("evaluation.samples=2", "evaluation.k=[1]", "recipe.prompts_per_step=4", "recipe.mini_batch=4")
    micro = ("actor.ppo_micro_batch_size_per_gpu", "rollout.log_prob_micro_batch_size_per_gpu")
    more = {"trainer": TRAINER, "steps": 6, "cpus": 4, "memory_gb": 16, "grace_seconds": 300.0, "signal_seconds": 600}
    more |= {"exclude": slurm_lab.elsewhere("node1", "node2", "node3"), "setup": ["renice -n 5 $$ >/dev/null"]}
    runs = [
        slurm_lab.run(
            overrides=(*small, *(f"verl.actor_rollout_ref.{key}={64 // nodes}" for key in micro),
                       f"model.resources.nodes={nodes}", "save_every=4", "evaluation.every=6"),
            **more,
        )
        for nodes in (1, 2)
    ]  # fmt: skip
    jobs = slurm_lab.submit(*runs)
    first = runs[0]

    def tell() -> None:
        wait(lambda: slurm_lab.step(first) >= 1, 900)
        slurm_lab.cluster.run("scancel", "--signal=USR2", jobs[first])

    threading.Thread(target=tell, daemon=True).start()
    return [(run, jobs[run]) for run in runs]


@pytest.fixture
def in_cluster(slurm_cluster):
    """This process sees the cluster."""
    with slurm_cluster.here():
        yield slurm_cluster
