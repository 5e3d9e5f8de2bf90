"""`harness eval` on the real cluster: train -> eval chains with the stand-in trainer, all started at once."""

from __future__ import annotations

import datetime
import os
import signal

import pyarrow.parquet as pq
import pytest

from harness import files
from harness.running import evaluations
from harness.running.evaluate import Asked, evaluate
from harness.slurm import live
from harness.store import retention
from tests.cluster.lab import ROOT, wait

pytestmark = pytest.mark.slow

FEW = ("evaluation.samples=4", "evaluation.k=[1]")
SLOW = {"step_seconds": 0.5, "kept": True}
STEPS = 20
LONG = 240.0


def ask(lab, run, **more):
    """What `harness eval RUN` does. Returns the evaluation's name and the lines that it printed."""
    with lab.cluster.here():
        lines = list(evaluate(lab.store, [run], Asked(**more), ROOT))
    (name,) = evaluations.every(lab.store, [run])
    return name, lines


def state(lab, name):
    with lab.cluster.here():
        return live.overview(lab.store, [name])[name].state


def started(lab, name):
    """Times at which the trainer began to evaluate."""
    return [row["time"] for row in lab.trained(name)]


def unix(iso):
    return datetime.datetime.fromisoformat(iso).timestamp()


@pytest.fixture(scope="module")
def stage(slurm_lab):
    """Name -> (run, evaluation, job of the evaluation), asked for while the runs train."""
    lab, cluster = slurm_lab, slurm_lab.cluster
    calm = {"overrides": FEW, "nodes": 2, "exclude": lab.elsewhere("node1", "node2", "node3", "node4")}
    runs = {
        "chain": lab.run(steps=STEPS, wishes=SLOW | {"evaluation_seconds": 1}, **calm),
        "failed": lab.run(steps=60, wishes=SLOW, **calm),
        "cancelled": lab.run(steps=300, wishes=SLOW, **calm),
    }
    jobs = lab.submit(*runs.values())
    wait(lambda: all(lab.step(run) >= 2 for run in runs.values()), 120, lambda: lab.trouble(runs["chain"]))
    cast = {}
    for name, run in runs.items():
        evaluation, lines = ask(lab, run, n=8, seeds=2)
        assert f"when job {jobs[run]} has ended" in lines[0]
        cast[name] = (run, evaluation, lines[0].partition(": job ")[2].partition(",")[0])
    cluster.run("scancel", "--signal=USR2", jobs[runs["chain"]])  # it saves and goes back into the queue
    cluster.run("scancel", jobs[runs["cancelled"]])
    lab.spec(runs["failed"], wishes=SLOW | {"raises": "loss is nan"})
    os.kill(lab.trained(runs["failed"])[0]["pid"], signal.SIGKILL)  # tried again, it fails for good
    return cast


def test_it_starts_when_the_run_is_done_and_its_outcomes_are_the_runs(stage, slurm_lab):
    run, evaluation, job = stage["chain"]
    folder = slurm_lab.store.folder(run)
    wait(lambda: slurm_lab.events(run, "requeued"), 60, lambda: slurm_lab.trouble(run))
    assert slurm_lab.squeue(job) == "PENDING", "a requeue is no end"
    wait(lambda: slurm_lab.done(evaluation), LONG, lambda: slurm_lab.trouble(evaluation))
    assert slurm_lab.done(run)
    assert len(slurm_lab.attempts(run)) == 2
    (begin,) = started(slurm_lab, evaluation)
    assert begin >= unix(files.read_json(folder / "done.json")["time"])
    assert slurm_lab.trained(evaluation)[0]["nodes"] == "2"
    table = pq.read_table(folder / "outcomes" / "eval" / f"step_{STEPS:06d}.parquet").to_pylist()
    assert [(r["problem"], r["seed"]) for r in table] == [
        (f"sums/p{p}", 1000 * p + s) for p in range(2) for s in range(16)
    ]
    assert [e["drawn"] for e in slurm_lab.events(run, "evaluated again")] == [32]
    assert retention.wanted(folder) == set()
    wait(lambda: slurm_lab.squeue(job) in ("", "COMPLETED"), 30)
    assert not list(slurm_lab.store.folder(evaluation).glob("job/*"))


def test_asked_again_what_is_there_needs_no_job(stage, slurm_lab):
    run, evaluation, _ = stage["chain"]
    wait(lambda: slurm_lab.done(evaluation), LONG, lambda: slurm_lab.trouble(evaluation))
    _, lines = ask(slurm_lab, run, n=8, seeds=2)
    assert "left alone: it is there: sums: pass@1 50.00 over 2 problems, 16 samples each" in lines[0]


@pytest.mark.parametrize("name", ["failed", "cancelled"])
def test_where_the_run_did_not_get_through_it_says_so_and_does_not_stay_in_the_queue(stage, slurm_lab, name):
    run, evaluation, job = stage[name]
    wait(lambda: slurm_lab.squeue(job) in ("", "COMPLETED"), LONG, lambda: slurm_lab.trouble(evaluation))
    assert not slurm_lab.done(run)
    found = state(slurm_lab, evaluation)
    assert found.kind == "stopped"
    assert f"nothing was evaluated: run {run} did not get done" in found.reason
    (log,) = (slurm_lab.store.root / "_slurm").glob(f"*/logs/{job}.0.0.log")
    assert "nothing was evaluated" in log.read_text()
    assert slurm_lab.attempts(evaluation) == []
    assert retention.wanted(slurm_lab.store.folder(run)) == set()


def test_killed_in_the_middle_it_is_made_again_over_ray_on_two_nodes_and_counted_once(stage, slurm_lab):
    run = slurm_lab.run(
        steps=4, trainer="tests.support.ray_trainer", wishes={"kept": True, "evaluation_seconds": 5}, overrides=FEW,
        nodes=2, cpus=2, memory_gb=4, exclude=slurm_lab.elsewhere("node5", "node6", "node7", "node8"),
    )  # fmt: skip
    slurm_lab.spec(run, ray=True)
    folder = slurm_lab.store.folder(run)
    from tests.support import fake_trainer

    fake_trainer.save(folder / "checkpoints", 4, 1)
    fake_trainer.evaluated(folder, 4, 4)
    files.write_json(folder / "done.json", {"step": 4, "total": 4})
    evaluation, _ = ask(slurm_lab, run, n=8)
    place = slurm_lab.store.folder(evaluation)
    wait(lambda: (place / "trained.jsonl").exists(), LONG, lambda: slurm_lab.trouble(evaluation))
    os.kill(files.read_json(place / "ray.json")["driver"], signal.SIGKILL)
    wait(lambda: slurm_lab.done(evaluation), LONG, lambda: slurm_lab.trouble(evaluation))
    assert slurm_lab.attempts(evaluation) == [("failed", "killed"), ("done", "")]
    assert len({worker["address"] for worker in files.read_json(place / "ray.json")["workers"]}) == 2
    table = pq.read_table(folder / "outcomes" / "eval" / "step_000004.parquet")
    assert table.num_rows == 16
    wait(lambda: not slurm_lab.marked(evaluation), 30)
