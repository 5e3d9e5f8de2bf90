from __future__ import annotations

import json

import pytest

from harness.store import retention
from harness.store.retention import Policy
from harness.trainer import checkpoints

STEPS = [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("policy", "scores", "stay"),
    [
        (Policy(), {}, {40}),
        (Policy(last=2), {}, {30, 40}),
        (Policy(last=9), {}, set(STEPS)),
        (Policy(last=0), {}, {40}),
        (Policy(best=True), {0: 0.9, 10: 0.3, 20: 0.5, 30: 0.4}, {20, 40}),
        (Policy(best=True), {10: 0.5, 20: 0.5}, {10, 40}),
        (Policy(best=True), {}, {40}),
        (Policy(every=20), {}, {20, 40}),
        (Policy(every=15, best=True), {10: 0.5}, {10, 30, 40}),
    ],
)
def test_what_stays(policy, scores, stay):
    assert retention.kept(STEPS, policy, scores) == stay


def test_scores_are_the_evaluations_of_the_log(tmp_path):
    log = tmp_path / "metrics.jsonl"
    rows = [
        {"step": 10, "time": 1.0, "metrics": {"entropy/all": 1.0, "eval/pass@1": 0.25, "eval/x/pass@1": 0.9}},
        {"step": 11, "time": 1.0, "metrics": {"entropy/all": 1.0}},
        {"step": 10, "time": 2.0, "metrics": {"eval/pass@1": 0.5}},
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 20, "ti')
    assert retention.scores(log) == {10: 0.5}
    assert retention.scores(tmp_path / "none") == {}


def test_the_trainer_keeps_the_best_and_every_so_many(tmp_path):
    root = tmp_path / "checkpoints"
    for step in STEPS:
        checkpoints.folder(root, step).mkdir(parents=True)
        (checkpoints.folder(root, step) / "data.pt").write_text("x")
        checkpoints.seal(root, step)
    rows = [{"step": step, "metrics": {"eval/pass@1": 1 / step}} for step in STEPS]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    checkpoints.prune(root, 1, Policy(1, best=True, every=30))
    assert checkpoints.steps(root) == [10, 30, 40]
