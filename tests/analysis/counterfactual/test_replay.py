from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.counterfactual import advice, facts, replay
from harness.commands import replay as verb
from harness.errors import HarnessError
from harness.store.runs import Store


def table(steps: list[list[list[float]]]) -> pa.Table:
    """Rewards by step and group; a reward above 0 is a success."""
    rows = [
        (step, f"s{step}p{g}", reward, float(reward > 0))
        for step, groups in enumerate(steps, start=1)
        for g, rewards in enumerate(groups)
        for reward in rewards
    ]
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(("step", "group", "reward", "accuracy"))})


def slowly(groups: list[list[float]], K: str) -> tuple[float, float, float, float]:
    """(zero, positive, negative, hard) straight from the definition b_K = inf{x : F(x) >= K}."""
    signs, hard = [], []
    for rewards in groups:
        G = len(rewards)
        base = min(x for x in rewards if Fraction(sum(r <= x for r in rewards), G) >= Fraction(K))
        signs += [np.sign(r - base) for r in rewards]
        hard.append(sum(r <= 0 for r in rewards) >= math.ceil(Fraction(K) * G))
    return (*(float(np.mean([s == sign for s in signs])) for sign in (0, 1, -1)), float(np.mean(hard)))


@pytest.mark.parametrize("K", ["0.05", "0.25", "0.28", "0.4", "0.6", "0.99"])
@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 1.0), (-0.5, 0.0, 0.25, 1.0)])
def test_shares_are_those_of_the_definition_also_for_groups_of_unequal_size(K, values):
    rng = np.random.default_rng(len(values))
    steps = [[list(rng.choice(values, size=size)) for size in (4, 16, 25, 16)] for _ in range(5)]
    groups = replay.group(table(steps).take(rng.permutation(61 * 5)))  # files need not be in order
    found = replay.replay(groups, K)
    for i, step in enumerate(steps):
        got = (found.zero[i], found.positive[i], found.negative[i], found.hard[i])
        assert got == pytest.approx(slowly(step, K), abs=1e-12)


def test_weights_of_two_valued_rewards_are_those_of_proposition_4_1():
    groups = replay.group(table([[[1.0] * c + [0.0] * (16 - c) for c in range(17)]]))
    found = replay.replay(groups, "0.4")
    inside = (found.rates > 0) & (found.rates < 1)
    p, hard = found.rates[inside], found.rates[inside] <= 0.6
    assert found.up[inside] == pytest.approx(np.where(hard, np.sqrt(p / (1 - p)), 0))
    assert found.down[inside] == pytest.approx(np.where(hard, 0, np.sqrt((1 - p) / p)))
    assert replay.mean_profile(groups)[2][inside] == pytest.approx(np.sqrt(p * (1 - p)))


def test_a_step_of_equal_rewards_is_silent():
    found = replay.replay(replay.group(table([[[1.0] * 4, [0.0] * 4], [[1.0, 0.0, 0.0, 0.0]]])), "0.5")
    assert found.silent.tolist() == [True, False]
    assert found.zero.tolist() == [1.0, 0.75]


def test_every_rank_once_and_no_two_levels_of_one_rank():
    groups = replay.group(table([[[0.0, 1.0] * 8]]))
    assert [r for _, r in replay.ranks(groups)] == list(range(1, 17))
    assert replay.ranks(groups, ["0.4", "0.42", "0.8"]) == [("0.4", 7), ("0.8", 13)]


def test_replayed_at_its_own_K_a_run_has_the_advantages_that_it_recorded(smoke):
    runs = [run for run in smoke if run.get("baseline.name") == "qae"]
    assert runs
    for run in runs:
        found = replay.replay(replay.read(run.folder), str(run.get("baseline.K")))
        recorded = [
            float(np.mean(pq.read_table(path)["advantage"].to_numpy() == 0))
            for path in sorted((run.folder / "outcomes" / "train").glob("*.parquet"))
        ]
        assert found.zero == pytest.approx(recorded, abs=1e-9)


def test_the_verb_prints_its_limits_and_writes_table_and_figure(smoke_root, smoke, tmp_path):
    told = verb.text(Store(smoke_root), smoke[0].id[:6], ["0.2", "0.4", "0.42"], tmp_path)
    assert "what this cannot tell" in told
    assert "policy would have gone elsewhere" in told
    assert "K=0.42 is the same experiment as K=0.4" in told
    assert {path.name for path in tmp_path.iterdir()} == {"replay.csv", "replay.pdf", "replay.svg", "replay.png"}


def test_mistakes_are_told_in_one_line(smoke_root, smoke, tmp_path):
    with pytest.raises(HarnessError, match="strictly between 0 and 1"):
        verb.text(Store(smoke_root), smoke[0].id, ["1.2"], tmp_path)
    with pytest.raises(HarnessError, match="no outcomes/train"):
        replay.read(tmp_path)
    broken = tmp_path / "outcomes" / "train"
    broken.mkdir(parents=True)
    (broken / "step_000001.parquet").write_bytes(b"PAR1")
    with pytest.raises(HarnessError, match="is damaged"):
        replay.read(tmp_path)


def seen(**changes) -> advice.Facts:
    usual = {
        "baseline": "mean", "group_size": 16, "smallest_group": 16, "levels": 2, "entropy": 1.0, "early_entropy": 1.1,
        "success": 0.4, "hard_at": 0.7,
    }  # fmt: skip
    return advice.Facts(**{**usual, **changes})


@pytest.mark.parametrize(
    "changes,K",
    [
        ({}, "0.4"),
        ({"entropy": 0.3}, "0.6"),
        ({"entropy": 0.6, "early_entropy": 2.0}, "0.6"),
        ({"entropy": None}, "0.4"),
    ],
)
def test_the_papers_rule_follows_the_entropy(changes, K):
    assert advice.rules(seen(**changes))[0].K == K


@pytest.mark.parametrize(
    "changes,words",
    [({"entropy": 0.2}, "raise K"), ({"entropy": 3.5}, "lower K"), ({"entropy": 1.0}, "leave K"),
     ({"success": 0.97}, "little to gain"), ({"success": 0.05}, "between 0.2 (below 10 %) and 0.3 (below 20 %) (rank 4"),
     ({"success": 0.15}, "and 0.3 (below 20 %) (rank 5"), ({"success": 0.3}, "K = 0.4 (from 20 to 50 %)"),
     ({"success": 0.7}, "K = 0.5"), ({"success": 0.85}, "above 80% there is less to gain")],
)  # fmt: skip
def test_each_rule_says_what_is_published_and_where(changes, words):
    told = " ".join(advice.text("run", seen(**changes)).split())
    assert words in told
    assert told.count("source:") == len(advice.rules(seen()))
    for rule in advice.rules(seen(**changes))[:3]:
        assert "heuristic of" in rule.source
        assert "2509.22611" in rule.source or "SkillXiv" in rule.source


def test_out_of_range_is_said():
    assert advice.warnings(seen()) == []
    told = " ".join(advice.warnings(seen(smallest_group=8, levels=5, baseline="qae")))
    assert "groups of 8" in told
    assert "5 values" in told
    assert "baseline is qae" in told


def test_facts_come_from_the_outcome_files(smoke_root, smoke):
    run = smoke[0]
    found = facts.read(run.folder, "mean")
    last = pq.read_table(run.folder / "outcomes" / "train" / "step_000040.parquet").to_pandas()
    assert found.group_size == 16
    assert found.entropy == pytest.approx(np.average(last["entropy"], weights=last["length"]), rel=0.5)
    assert 0 < found.success < 1
