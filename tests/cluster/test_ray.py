"""Ray over the nodes of a job, with a stand-in trainer on it: two jobs on the same two nodes at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from harness import files
from tests.cluster.lab import wait

pytestmark = pytest.mark.slow

TRAINER = "tests.support.ray_trainer"


@pytest.fixture(scope="module")
def pair(slurm_lab):
    """(run, job) of two jobs whose Ray is up on the same two nodes: one to lose a node's Ray, one to be cancelled."""
    allowed = ("node1", "node2", "node3")

    def start(steps):
        run = slurm_lab.run(
            steps=steps, trainer=TRAINER, nodes=2, cpus=2, memory_gb=4, exclude=slurm_lab.elsewhere(*allowed),
            wishes={"step_seconds": 0.4},
        )  # fmt: skip
        slurm_lab.spec(run, ray=True)
        return run

    runs = (start(25), start(500))
    jobs = slurm_lab.submit(*runs)
    for run in runs:
        wait(lambda run=run: slurm_lab.step(run) >= 2, 500, lambda run=run: slurm_lab.trouble(run))
    return [(run, jobs[run]) for run in runs]


def about(lab, run):
    return files.read_json(lab.store.folder(run) / "ray.json")


def raylets(lab, run):
    """Address of the node -> pid of its raylet."""
    found = {}
    for pid in lab.marked(run):
        command = psutil.Process(pid).cmdline()
        if command and command[0].endswith("/raylet"):
            found[next(w for w in command if w.startswith("--node_ip_address=")).partition("=")[2]] = pid
    return found


def temps(run):
    return list(Path("/tmp").glob(f"hr-{run[:6]}-*"))


def test_each_job_has_a_cluster_of_its_own_over_both_nodes(pair, slurm_lab):
    (one, _), (two, _) = pair
    nodes = slurm_lab.store.attempts(one)[0]["nodes"]
    assert slurm_lab.store.attempts(two)[0]["nodes"] == nodes
    assert about(slurm_lab, one)["address"] != about(slurm_lab, two)["address"]
    for run in (one, two):
        workers = about(slurm_lab, run)["workers"]
        assert sorted(w["address"] for w in workers) == sorted(f"127.0.1.{n.removeprefix('node')}" for n in nodes)
        assert {w["platform"] for w in workers} == {"cpu"}, "the environment reaches the workers of every node"
        assert set(raylets(slurm_lab, run)) == {w["address"] for w in workers}
    assert len(temps(one)) == len(temps(two)) == 2
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in temps(one)), "it holds the token"


def test_a_dead_node_ends_the_job_with_its_cause_and_the_run_goes_on_without_that_node(pair, slurm_lab):
    (run, _), (other, _) = pair
    nodes = slurm_lab.store.attempts(run)[0]["nodes"]
    survivors = raylets(slurm_lab, other)
    os.kill(raylets(slurm_lab, run)[f"127.0.1.{nodes[1].removeprefix('node')}"], signal.SIGKILL)
    wait(lambda: slurm_lab.events(run, "requeued"), 120, lambda: slurm_lab.trouble(run))
    record = slurm_lab.store.attempts(run)[0]
    assert (record["outcome"], record["cause"], record["bad"]) == ("failed", "node failure", [nodes[1]])
    assert f"Ray on {nodes[1]} ended" in record["reason"]
    assert not slurm_lab.marked(run)
    assert raylets(slurm_lab, other) == survivors, "another job's Ray was stopped"
    assert slurm_lab.events(run, "requeued")[0]["excluded"] == [nodes[1]]


def test_scancel_leaves_nothing_running(pair, slurm_lab):
    run, job = pair[1]
    assert slurm_lab.marked(run)
    slurm_lab.cluster.run("scancel", job)
    wait(lambda: not slurm_lab.marked(run), 60)
    wait(lambda: slurm_lab.squeue(job) in ("", "CANCELLED"), 60)
    assert not slurm_lab.done(run)


def test_the_run_ends_on_other_nodes_and_leaves_no_folder(pair, slurm_lab):
    (run, _), (cancelled, _) = pair
    wait(lambda: slurm_lab.done(run), 300, lambda: slurm_lab.trouble(run))
    first, second = slurm_lab.store.attempts(run)
    assert first["nodes"][1] not in second["nodes"]
    steps = [step for _, step in slurm_lab.steps(run)]
    assert steps == list(range(1, 26)), "it saves every step: none is repeated"
    wait(lambda: not slurm_lab.marked(run) and not temps(run), 30)
    # What the cancelled job could not remove was removed by the next job on these nodes.
    wait(lambda: not temps(cancelled), 10)
