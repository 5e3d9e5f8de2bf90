"""Holm, paired differences, effect size and aggregates against scipy and by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.aggregate import interquartile_mean, probability_of_improvement
from analysis.bootstrap import resample
from analysis.effect import expected_error, minimum_detectable, standard_error
from analysis.multiple import holm
from analysis.paired import difference, paired_t
from harness.errors import HarnessError
from tests.support.shared import SHARED, needs


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).size == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_equals_the_step_down_procedure(p):
    adjusted = holm(p)
    for level in (0.01, 0.05, 0.2):
        rejected = set()
        for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
            if p[i] * (len(p) - rank) > level:
                break
            rejected.add(i)
        assert rejected == {i for i in range(len(p)) if adjusted[i] <= level}


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(HarnessError, match="between 0 and 1"):
        holm([0.1, 1.2])


def test_paired_t_equals_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.random(30), rng.random(30)
    mean, error, t = paired_t(a, b)
    assert t == pytest.approx(stats.ttest_rel(a, b).statistic)
    assert mean == pytest.approx((a - b).mean())
    assert error == pytest.approx(stats.sem(a - b))


@needs("logs/openai_gsm8k")
def test_paired_differences_of_the_gsm8k_systems():
    path = SHARED / "logs/openai_gsm8k/example_model_solutions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    names = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    arms = [np.array([[row[name]["is_correct"] for row in rows]], dtype=float) for name in names]
    draws = resample(arms, np.random.default_rng(0), resamples=4000)
    for i in range(1, 4):
        found = difference(draws, i, 0)
        mean, error, _ = paired_t(arms[i][0], arms[0][0])
        assert found.interval.estimate == pytest.approx(mean)
        assert found.error == pytest.approx(error, rel=0.05)
        assert found.interval.low == pytest.approx(mean - 1.96 * error, abs=0.004)
        assert not found.method_level  # one outcome a system says nothing on how it was trained
    assert difference(draws, 3, 0).interval.estimate == pytest.approx(0.563 - 0.217, abs=0.001)
    # Unpaired, the two middle systems would need a larger difference: pairing pays.
    pooled = sum(standard_error(arms[i][0]) ** 2 for i in (1, 2)) ** 0.5
    assert difference(draws, 1, 2).error < pooled


def test_relative_change_and_refusal_of_self():
    arms = [np.full((1, 10), 0.4), np.full((1, 10), 0.5)]
    draws = resample(arms, np.random.default_rng(0), resamples=50)
    assert difference(draws, 1, 0).relative.estimate == pytest.approx(0.25)
    assert difference(resample([np.zeros((1, 10)), arms[1]], np.random.default_rng(0)), 1, 0).relative is None
    with pytest.raises(HarnessError, match="itself"):
        difference(draws, 0, 0)


def test_expected_error_of_thirty_problems():
    assert expected_error(problems=30, mean=0.3, samples=32) == pytest.approx(0.064, abs=0.001)
    # more samples do not cure thirty problems
    assert expected_error(30, 0.3, 10_000) > 0.9 * expected_error(30, 0.3, 32)


def test_minimum_detectable_has_the_power_it_states():
    """A z-test over 20,000 simulated studies finds the stated difference in 80 % of them, give or take one point."""
    error = 0.05
    d = minimum_detectable(error)
    observed = np.random.default_rng(0).normal(d, error, 20_000)
    assert (observed > 1.959964 * error).mean() == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (7, 11)])
def test_interquartile_mean_equals_scipy(shape):
    x = np.random.default_rng(1).random(shape)
    assert interquartile_mean(x) == pytest.approx(stats.trim_mean(x, 0.25, axis=None))


def test_probability_of_improvement_equals_mann_whitney():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 5, (6, 3)), rng.integers(0, 5, (8, 3))
    u = [stats.mannwhitneyu(x[:, i], y[:, i]).statistic / 48 for i in range(3)]
    assert probability_of_improvement(x, y) == pytest.approx(np.mean(u))
    assert probability_of_improvement([1.0, 1.0], [1.0]) == 0.5


@pytest.mark.parametrize("call", [
    lambda: standard_error([0.5]), lambda: expected_error(1, 0.3, 8), lambda: minimum_detectable(0.1, alpha=0),
    lambda: interquartile_mean([]), lambda: probability_of_improvement([[1, 2]], [[1]]),
    lambda: paired_t(np.zeros(3), np.zeros(4)),
])  # fmt: skip
def test_refusals_are_named(call):
    with pytest.raises(HarnessError):
        call()
