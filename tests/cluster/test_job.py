"""What clusters do to jobs, with the stand-in trainer: every case is started at once, each test waits for its own.

Always: no step is trained by two at once, no outcome is lost, and the record says why each attempt ended.
"""

from __future__ import annotations

import os
import signal

import pytest

from harness import files
from harness.slurm import excluded, postmortem
from tests.cluster.lab import wait

pytestmark = pytest.mark.slow

SLOW = {"step_seconds": 0.5}
SAVE_EVERY = 2
LONG = 240.0
"""Seconds until the last of them must have ended; on an idle machine it takes a minute."""


@pytest.fixture(scope="module")
def stage(request, slurm_lab):
    """Name -> (run, job), all submitted, and everything done to them that happens from outside."""
    if any("verl_runs" in item.fixturenames for item in request.session.items):
        request.getfixturevalue("verl_runs")  # they take longest: let them begin first
    lab, cluster = slurm_lab, slurm_lab.cluster
    calm = {"exclude": lab.elsewhere("node1", "node2", "node3")}
    runs = {
        "limit": lab.run(steps=60, wishes=SLOW, time_limit="00:01:00", signal_seconds=45, **calm),
        "preempted": lab.run(steps=40, wishes=SLOW, partition="preempt", cpus=32, exclude=lab.elsewhere("node4")),
        "cancelled": lab.run(steps=300, wishes=SLOW, **calm),
        "memory": lab.run(steps=20, wishes=SLOW | {"eat": 900}, **calm),
        "NCCL": lab.run(steps=6, wishes=SLOW | {"raises": "NCCL error in: socket.cpp", "until": 1}, **calm),
        "wrong": lab.run(steps=6, wishes=SLOW | {"raises": "loss is nan"}, **calm),
        "killed": lab.run(steps=30, wishes=SLOW, **calm),
        "slurmd": lab.run(steps=120, wishes=SLOW, exclude=lab.elsewhere("node5", "node6")),
        "down": lab.run(steps=60, wishes=SLOW, nodes=2, exclude=lab.elsewhere("node7", "node8")),
    }
    jobs = lab.submit(*runs.values())
    cast = {name: (run, jobs[run]) for name, run in runs.items()}
    disturbed = ("preempted", "cancelled", "killed", "slurmd", "down")
    wait(lambda: all(lab.step(runs[name]) >= 3 for name in disturbed), 120, lambda: lab.trouble(runs["down"]))
    victim = lab.store.attempts(runs["slurmd"])[0]["nodes"][0]
    cluster.kill_node(victim)
    cluster.run("scontrol", "update", "nodename=node7", "state=down", "reason=test")
    cluster.run("sbatch", "--nodelist=node4", "--cpus-per-task=32", "--output=/dev/null", "--wrap=sleep 2")
    cluster.run("scancel", jobs[runs["cancelled"]])
    os.kill(lab.trained(runs["killed"])[0]["pid"], signal.SIGKILL)
    yield cast
    cluster.start_node(victim)


def finished(lab, run, seconds=LONG):
    wait(lambda: lab.done(run), seconds, lambda: lab.trouble(run))
    steps = lab.steps(run)
    assert [attempt for attempt, _ in steps] == sorted(attempt for attempt, _ in steps), "two trainers at once"
    assert {step for _, step in steps} == set(range(1, lab.store.spec(run)["config"]["steps"] + 1))
    wait(lambda: not list(lab.store.folder(run).glob("job/*")), 30)
    return steps


def repeated(steps):
    return len(steps) - len({step for _, step in steps})


@pytest.mark.parametrize("name, cause", [("limit", "time limit"), ("preempted", "preempted")])
def test_a_run_that_is_told_in_time_saves_and_goes_on_without_repeating_a_step(stage, slurm_lab, name, cause):
    run, job = stage[name]
    steps = finished(slurm_lab, run)
    *before, last = slurm_lab.attempts(run)
    assert before
    assert set(before) == {("stopped", cause)}
    assert last == ("done", "")
    assert repeated(steps) == 0
    assert [(e["job"], e["reason"]) for e in slurm_lab.events(run, "requeued")] == [(job, cause)] * len(before)
    for number in range(1, len(before) + 2):
        assert (slurm_lab.store.folder(run) / "attempts" / f"{number:03d}" / "stdout.log").read_text() == "hello\n"


def test_a_cancelled_job_leaves_nothing_running_and_can_go_on_later(stage, slurm_lab, in_cluster):
    run, job = stage["cancelled"]
    wait(lambda: not slurm_lab.marked(run))
    wait(lambda: slurm_lab.squeue(job) in ("", "CANCELLED"))
    wait(lambda: postmortem.complete(slurm_lab.store, run) or "cause" in slurm_lab.store.attempts(run)[0], 30)
    record = slurm_lab.store.attempts(run)[0]
    assert record["cause"] == "cancelled"
    assert slurm_lab.events(run, "requeued") == []
    saved = slurm_lab.store.checkpoint(run)
    assert saved >= record["step"] - SAVE_EVERY
    spec = slurm_lab.store.spec(run)
    spec["config"]["steps"] = total = record["step"] + 4
    slurm_lab.spec(run, config=spec["config"])
    slurm_lab.submit(run)
    finished(slurm_lab, run)
    assert [row["from"] for row in slurm_lab.trained(run)] == [0, saved]
    assert slurm_lab.step(run) == total


def test_out_of_memory_is_told_and_not_tried_again(stage, slurm_lab, in_cluster):
    run, job = stage["memory"]
    wait(lambda: slurm_lab.squeue(job) in ("", "FAILED", "OUT_OF_MEMORY"), LONG)
    wait(lambda: postmortem.complete(slurm_lab.store, run) or "cause" in slurm_lab.store.attempts(run)[0], 30)
    record = slurm_lab.store.attempts(run)[0]
    assert record["cause"] == "out of host memory"
    assert "memory limit" in record["reason"]
    assert slurm_lab.attempts(run)[1:] == []
    assert not slurm_lab.marked(run)


@pytest.mark.parametrize("name", ["NCCL", "killed"])
def test_a_fault_of_a_node_is_tried_on_another(stage, slurm_lab, name):
    run, _ = stage[name]
    steps = finished(slurm_lab, run)
    assert slurm_lab.attempts(run) == [("failed", name), ("done", "")]
    first, second = (attempt["nodes"] for attempt in slurm_lab.store.attempts(run))
    assert slurm_lab.events(run, "requeued")[0]["excluded"] == first
    assert first != second
    assert repeated(steps) <= SAVE_EVERY


def test_what_a_run_does_wrong_by_itself_is_not_tried_again(stage, slurm_lab):
    run, job = stage["wrong"]
    wait(lambda: slurm_lab.squeue(job) in ("", "FAILED"), LONG)
    assert slurm_lab.attempts(run) == [("failed", "not a number")]
    assert slurm_lab.store.attempts(run)[0]["reason"] == "not a number: RuntimeError: loss is nan"
    assert slurm_lab.events(run, "requeued") == []


def test_a_node_that_goes_down_costs_at_most_one_save_interval(stage, slurm_lab, in_cluster):
    run, job = stage["down"]
    wait(lambda: len(slurm_lab.store.attempts(run)) > 1 or back("node7", in_cluster), LONG)
    steps = finished(slurm_lab, run)
    assert slurm_lab.attempts(run)[0][1] == "node failure"
    assert slurm_lab.attempts(run)[-1] == ("done", "")
    assert slurm_lab.store.attempts(run)[-1]["restart"] >= 1
    assert slurm_lab.store.attempts(run)[-1]["job"] == job
    assert repeated(steps) <= SAVE_EVERY * (len(slurm_lab.attempts(run)) - 1)


def back(node, cluster):
    """Puts a node into service again; SLURM does it by itself when its slurmd registers."""
    cluster.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)


def test_a_job_that_lives_on_where_slurmd_was_killed_gives_way_to_its_successor(stage, slurm_lab):
    run, _ = stage["slurmd"]
    steps = finished(slurm_lab, run)
    first, *_, last = slurm_lab.store.attempts(run)
    assert first["nodes"] != last["nodes"], "it was started again while the old one still ran elsewhere"
    assert slurm_lab.attempts(run)[-1] == ("done", "")
    assert repeated(steps) <= SAVE_EVERY * (len(slurm_lab.attempts(run)) - 1)
    assert not slurm_lab.marked(run)


def test_nothing_of_it_is_blamed_on_healthy_nodes(stage, slurm_lab):
    assert set(excluded.nodes(slurm_lab.store.root)) <= {"node5", "node6", "node7", "node8"}
    for run, _ in stage.values():
        events, damaged = files.read_json_lines(slurm_lab.store.folder(run) / "events.jsonl")
        assert events
        assert not damaged
