from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import files
from harness.errors import HarnessError
from harness.running import evaluations, merge
from harness.running.evaluate import Asked, Chosen, choose, evaluate, foreground
from harness.running.merge import results, told
from harness.store import claim, retention
from harness.store.runs import RunState, Store
from harness.trainer import checkpoints
from harness.trainer.outcomes import EVALUATION
from tests.support.lab import FAKE


def rows(samples, *, problems=2, scorer="x/1", seeded=True, right=lambda p, s: s % 2):
    made = [
        {
            "step": 4, "benchmark": "aime24", "problem": f"aime24/p{p}", "sample": s,
            "seed": 1000 * p + s if seeded else None, "reward": 1.0, "accuracy": float(right(p, s)), "length": 3,
            "words": 0, "answer": None, "scorer": scorer,
        }
        for p in range(problems)
        for s in samples
    ]  # fmt: skip
    return pa.Table.from_pylist(made, schema=EVALUATION)


def test_merging_extends_by_problem_and_seed_and_keeps_what_was_there():
    old = rows(range(4), right=lambda p, s: 1)
    whole = merge.merge(old, rows(range(10), right=lambda p, s: 0))
    assert whole.num_rows == 20
    assert whole.schema == EVALUATION
    frame = whole.to_pandas()
    assert (frame[frame["sample"] < 4].accuracy == 1).all(), "the first outcomes stay"
    assert (frame[frame["sample"] >= 4].accuracy == 0).all()
    assert merge.merge(whole, rows(range(10))).equals(whole), "again changes nothing"


def test_without_seeds_samples_tell_rows_apart():
    assert merge.merge(rows(range(4), seeded=False), rows(range(6), seeded=False)).num_rows == 12


def test_other_scorers_do_not_mix():
    with pytest.raises(HarnessError, match=r"different scorers, x/1 and x/2"):
        merge.merge(rows(range(4)), rows(range(4), scorer="x/2"))


def test_blocks_of_samples_are_evaluation_seeds():
    table = rows(range(7), right=lambda p, s: s < 3 or (p == 0 and s < 6))
    (result,) = results(table, 3)
    assert result.by_seed == (1.0, 0.5), "the seventh sample fills no block"
    assert result.accuracy == pytest.approx((6 / 7 + 3 / 7) / 2)
    assert (result.problems, result.samples) == (2, 7)
    assert "2 evaluation seeds from 50.00 to 100.00" in told([result])


def a_run(tmp_path, steps=(4,), **wishes):
    run = tmp_path / "0123456789"
    verl = {
        "trainer": {"logger": ["console", "wandb"], "save_freq": 10, "total_training_steps": 4},
        "actor_rollout_ref": {"rollout": {"seed": 1, "val_kwargs": {"n": 4, "temperature": 0.7}}},
    }
    cluster = {
        "name": "local",
        "hang_minutes": 10,
        "grace_seconds": 60,
        "time_limit": "24:00:00",
        "signal_seconds": 180,
    }
    evaluation = {"every": 4, "before_training": False, "samples": 4}
    spec = {
        "schema": 1, "id": run.name, "label": "x", "sweep": "s", "signature": {}, "trainer": FAKE, "prepare": [],
        "config": {"cluster": cluster, "steps": 4, "save_every": 2, "evaluation": evaluation}, "verl": verl,
        "provenance": {}, "wishes": wishes,
    }  # fmt: skip
    files.write_json(run / "spec.json", spec)
    for step in steps:
        place = checkpoints.folder(run / "checkpoints", step)
        place.mkdir(parents=True)
        (place / "model.pt").write_text(str(step))
        checkpoints.seal(run / "checkpoints", step)
    return run, spec


def state(kind, step=0, reason=""):
    return RunState("0123456789", kind, step, 40, 1, reason)


def test_a_run_in_the_queue_is_evaluated_at_its_last_step_when_its_job_has_ended():
    assert choose(state("running", 13), "7_0", [10], None, 10) == Chosen("0123456789", 40, "7_0")
    assert choose(state("queued"), "7_0", [], None, 10) == Chosen("0123456789", 40, "7_0")
    assert choose(state("running", 13), "7_0", [10], 10, 10).step == 10, "it is there, and will be kept"
    assert choose(state("running", 13), "7_0", [10], 20, 10).step == 20, "it will be saved, and kept"
    assert choose(state("running", 13), "7_0", [10], 40, 10).step == 40


@pytest.mark.parametrize("step", [5, 25, 41, 0])
def test_a_step_that_a_run_will_not_save(step):
    with pytest.raises(HarnessError, match=rf"not the checkpoint of step {step} \(there: 10\) and will not save it"):
        choose(state("running", 13), "7_0", [10], step, 10)


@pytest.mark.parametrize("kind", ["done", "failed", "stopped"])
def test_a_run_that_has_ended_is_evaluated_at_its_last_checkpoint(kind):
    assert choose(state(kind, 23), "", [10, 20], None, 10) == Chosen("0123456789", 20)


@pytest.mark.parametrize(
    "kind, why", [("running", "is being trained"), ("queued", "ask again"), ("unknown", "ask again")]
)
def test_a_run_whose_fate_is_not_known_is_not_evaluated(kind, why):
    with pytest.raises(HarnessError, match=why):
        choose(state(kind), "", [10], None, 10)


def test_the_spec_of_an_evaluation(tmp_path):
    run, spec = a_run(tmp_path)
    store = Store(tmp_path)
    frozen = evaluations.frozen(spec, 4, 32, 10, after="7_0", snapshot="/code", time_limit="2:00:00")
    for _ in range(2):  # a second try finds what the first one left
        name = evaluations.prepare(store, frozen)
    assert name == "0123456789/evaluations/step_000004"
    made = store.spec(name)
    assert made["verl"]["trainer"] == {
        "logger": ["console"], "save_freq": -1, "total_training_steps": 4, "val_only": True, "val_before_train": True,
    }  # fmt: skip
    assert made["verl"]["actor_rollout_ref"]["rollout"] == {"seed": 1, "val_kwargs": {"n": 320, "temperature": 0.7}}
    assert store.brief(name)["evaluates"] == {"step": 4, "samples": 320, "n": 32, "after": "7_0"}
    cluster = made["config"]["cluster"]
    assert (cluster["time_limit"], cluster["hang_minutes"], cluster["grace_seconds"]) == ("2:00:00", 800, 5.0)
    assert made["provenance"]["snapshot"] == "/code"
    assert spec["verl"]["trainer"]["save_freq"] == 10, "the run's own spec stays"
    found, its_name = Store.holding(store.folder(name))
    assert (found.root, its_name) == (tmp_path, name)
    assert Store.holding(run)[1] == run.name


def test_an_evaluation_begins_when_the_run_is_done_and_has_the_checkpoint(tmp_path):
    run, spec = a_run(tmp_path)
    store = Store(tmp_path)
    frozen = evaluations.frozen(spec, 4, 4, 1, after="7_0")
    name = evaluations.prepare(store, frozen)
    assert "did not get done (new: never started)" in evaluations.begin(store, name, frozen)
    files.write_json(run / "done.json", {"step": 4})
    assert evaluations.begin(store, name, frozen) == ""
    assert checkpoints.repair(store.folder(name) / "checkpoints") == 4, "the trainer resumes from the run's checkpoint"
    (checkpoints.folder(run / "checkpoints", 4) / checkpoints.SEAL).unlink()
    assert "has not the checkpoint of step 4 (there: none)" in evaluations.begin(store, name, frozen)


def test_retention_keeps_what_an_evaluation_needs(tmp_path):
    run, spec = a_run(tmp_path, steps=(2, 4, 6))
    store = Store(tmp_path)
    name = evaluations.prepare(store, evaluations.frozen(spec, 2, 4, 1))
    assert retention.wanted(run) == {2}
    checkpoints.prune(run / "checkpoints", 1)
    assert checkpoints.steps(run / "checkpoints") == [2, 6]
    evaluations.take_back(store, name)
    checkpoints.prune(run / "checkpoints", 1)
    assert checkpoints.steps(run / "checkpoints") == [6]


@pytest.mark.slow
def test_here_it_runs_under_supervision_and_what_is_there_is_not_drawn_again(tmp_path):
    run, _ = a_run(tmp_path)
    store = Store(tmp_path)
    (line,) = evaluate(store, [run.name], Asked(n=4, seeds=3), tmp_path)
    assert line == "sums: pass@1 50.00 over 2 problems, 12 samples each, 3 evaluation seeds from 50.00 to 50.00"
    table = pq.read_table(run / "outcomes" / "eval" / "step_000004.parquet")
    assert table.num_rows == 24
    name = evaluations.name(run.name, 4)
    assert store.state(name).kind == "done"
    assert files.read_json(store.folder(name) / "done.json")["evaluations"] == [4]
    assert retention.wanted(run) == set()
    assert evaluations.unfinished(store, [run.name]) == []
    (line,) = evaluate(store, [run.name], Asked(n=6, seeds=2), tmp_path)
    assert "left alone: it is there: sums" in line
    assert len(store.attempts(name)) == 1
    list(evaluate(store, [run.name], Asked(n=20), tmp_path))
    assert len(store.attempts(name)) == 2
    assert pq.read_table(run / "outcomes" / "eval" / "step_000004.parquet").num_rows == 40


def test_a_failure_here_names_the_log_and_frees_the_checkpoint(tmp_path):
    run, spec = a_run(tmp_path)
    files.write_json(run / "spec.json", {**spec, "prepare": [["no.such.module"]]})
    with pytest.raises(HarnessError, match=r"the evaluation failed: .*no\.such\.module.*001/stdout\.log"):
        list(foreground(Store(tmp_path), run.name, Asked()))
    assert retention.wanted(run) == set()


def test_two_at_once_do_not_mix(tmp_path):
    run, spec = a_run(tmp_path)
    store = Store(tmp_path)
    frozen = evaluations.frozen(spec, 4, 4, 1)
    name = evaluations.prepare(store, frozen)
    with claim.claimed(store.folder(name)):
        with pytest.raises(claim.Claimed, match="evaluation of 0123456789 at step 4 is being made by process"):
            evaluations.prepare(store, frozen)
        (line,) = foreground(store, run.name, Asked(n=4))
        assert "left alone: running: process" in line
        with pytest.raises(HarnessError, match=r"evaluated with 4 samples, not 8.*cancel 0123456789 --eval"):
            list(foreground(store, run.name, Asked(n=8)))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"step": 3}, r"not the checkpoint of step 3 \(there: 4\).*keep_checkpoints"),
        ({"n": 0}, "--n 0: at least 1"),
        ({"seeds": 0}, "--seeds 0: at least 1"),
        ({"time_limit": "1:00:00"}, "--time-limit 1:00:00: only for jobs"),
    ],
)
def test_what_cannot_be_evaluated(asked, why, tmp_path):
    run, _ = a_run(tmp_path)
    with pytest.raises(HarnessError, match=why):
        list(evaluate(Store(tmp_path), [run.name], Asked(**asked), tmp_path))


def test_a_run_without_checkpoints(tmp_path):
    run, _ = a_run(tmp_path, steps=())
    with pytest.raises(HarnessError, match="has not a checkpoint"):
        list(evaluate(Store(tmp_path), [run.name], Asked(), tmp_path))
