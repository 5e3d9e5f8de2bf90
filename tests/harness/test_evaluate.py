from __future__ import annotations

import json

import pyarrow as pa
import pytest

from harness.errors import HarnessError
from harness.evaluate import evaluate, merge, prepare, results, told
from harness.store import Store
from harness.trainer import checkpoints
from harness.trainer.outcomes import EVALUATION


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
    whole = merge(old, rows(range(10), right=lambda p, s: 0))
    assert whole.num_rows == 20
    assert whole.schema == EVALUATION
    frame = whole.to_pandas()
    assert (frame[frame["sample"] < 4].accuracy == 1).all(), "the first outcomes stay"
    assert (frame[frame["sample"] >= 4].accuracy == 0).all()
    assert merge(whole, rows(range(10))).equals(whole), "again changes nothing"


def test_without_seeds_samples_tell_rows_apart():
    assert merge(rows(range(4), seeded=False), rows(range(6), seeded=False)).num_rows == 12


def test_other_scorers_do_not_mix():
    with pytest.raises(HarnessError, match=r"different scorers, x/1 and x/2"):
        merge(rows(range(4)), rows(range(4), scorer="x/2"))


def test_blocks_of_samples_are_evaluation_seeds():
    table = rows(range(7), right=lambda p, s: s < 3 or (p == 0 and s < 6))
    (result,) = results(table, 3)
    assert result.by_seed == (1.0, 0.5), "the seventh sample fills no block"
    assert result.accuracy == pytest.approx((6 / 7 + 3 / 7) / 2)
    assert (result.problems, result.samples) == (2, 7)
    assert "2 evaluation seeds from 50.00 to 100.00" in told([result])


def a_run(tmp_path, steps=(4,)):
    run = tmp_path / "0123456789"
    verl = {
        "trainer": {"logger": ["console", "wandb"], "save_freq": 10, "total_training_steps": 4},
        "actor_rollout_ref": {"rollout": {"seed": 1, "val_kwargs": {"n": 4, "temperature": 0.7}}},
    }
    run.mkdir()
    spec = {"schema": 1, "id": run.name, "label": "x", "signature": {}, "config": {}, "verl": verl}
    (run / "spec.json").write_text(json.dumps(spec))
    for step in steps:
        place = checkpoints.folder(run / "checkpoints", step)
        place.mkdir(parents=True)
        (place / "data.pt").write_text("x")
        checkpoints.seal(run / "checkpoints", step)
    return run, spec


def test_the_folder_of_an_evaluation(tmp_path):
    run, spec = a_run(tmp_path)
    folder = run / "evaluations" / "step_000004"
    for _ in range(2):  # a second try finds what the first one left
        prepare(folder, spec, run / "checkpoints", 4, 320)
    told = json.loads((folder / "spec.json").read_text())["verl"]
    assert told["trainer"] == {
        "logger": ["console"], "save_freq": -1, "total_training_steps": 4, "val_only": True, "val_before_train": True,
    }  # fmt: skip
    assert told["actor_rollout_ref"]["rollout"] == {"seed": 1, "val_kwargs": {"n": 320, "temperature": 0.7}}
    assert spec["verl"]["trainer"]["save_freq"] == 10, "the run's own spec stays"
    assert checkpoints.repair(folder / "checkpoints") == 4, "the trainer resumes from the run's checkpoint"


@pytest.mark.parametrize(
    ("step", "samples", "why"),
    [(3, 4, r"not the checkpoint of step 3 \(there: 4\).*keep_checkpoints"), (4, 0, "--n 0: at least 1")],
)
def test_what_cannot_be_evaluated(step, samples, why, tmp_path):
    run, _ = a_run(tmp_path)
    with pytest.raises(HarnessError, match=why):
        evaluate(Store(tmp_path), run.name, step, samples, 1, tmp_path)


def test_a_run_without_checkpoints(tmp_path):
    run, _ = a_run(tmp_path, steps=())
    with pytest.raises(HarnessError, match="has not a checkpoint"):
        evaluate(Store(tmp_path), run.name, None, 4, 1, tmp_path)
