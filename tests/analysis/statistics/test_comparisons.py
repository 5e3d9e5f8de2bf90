"""Holm, paired differences, effect size and aggregates against scipy and by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.statistics.aggregate import (
    improvement_interval,
    interquartile_mean,
    interquartile_mean_interval,
    probability_of_improvement,
)
from analysis.statistics.bootstrap import resample
from analysis.statistics.effect import expected_error, minimum_detectable, standard_error
from analysis.statistics.multiple import holm
from analysis.statistics.paired import difference, paired_t, welch
from harness.errors import HarnessError
from tests.support.shared import SHARED, needs

pytestmark = pytest.mark.slow  # many processes, files or figures


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
        found = difference(draws, arms, i, 0)
        mean, error, _ = paired_t(arms[i][0], arms[0][0])
        assert found.interval.estimate == pytest.approx(mean)
        assert found.error == pytest.approx(error, rel=0.05)
        assert found.interval.low == pytest.approx(mean - 1.96 * error, abs=0.004)
        assert not found.method_level  # one outcome a system says nothing on how it was trained
    assert difference(draws, arms, 3, 0).interval.estimate == pytest.approx(0.563 - 0.217, abs=0.001)
    # Unpaired, the two middle systems would need a larger difference: pairing pays.
    pooled = sum(standard_error(arms[i][0]) ** 2 for i in (1, 2)) ** 0.5
    assert difference(draws, arms, 1, 2).error < pooled


def test_relative_change_and_refusal_of_self():
    arms = [np.full((1, 10), 0.4), np.full((1, 10), 0.5)]
    draws = resample(arms, np.random.default_rng(0), resamples=50)
    assert difference(draws, arms, 1, 0).relative.estimate == pytest.approx(0.25)
    from_nothing = [np.zeros((1, 10)), arms[1]]
    assert difference(resample(from_nothing, np.random.default_rng(0)), from_nothing, 1, 0).relative is None
    with pytest.raises(HarnessError, match="itself"):
        difference(draws, arms, 0, 0)


def test_with_one_seed_each_p_is_that_of_the_paired_t_test():
    a, b = np.random.default_rng(0).random((2, 1, 30))
    error, p, _ = welch(a, b)
    assert p == pytest.approx(stats.ttest_rel(a[0], b[0]).pvalue)
    assert error == pytest.approx(stats.sem(a[0] - b[0]))


def test_without_spread_over_problems_p_is_that_of_welch_over_seeds():
    rng = np.random.default_rng(1)
    a, b = (np.repeat(rng.random((n, 1)), 20, axis=1) for n in (4, 6))
    assert welch(a, b)[1] == pytest.approx(stats.ttest_ind(a[:, 0], b[:, 0], equal_var=False).pvalue)


def test_benchmarks_count_equally_in_p_too():
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 1, 40))
    strata = np.array([0] * 10 + [1] * 30)
    d = a[0] - b[0]
    error, _, _ = welch(a, b, strata)
    assert error == pytest.approx((stats.sem(d[:10]) ** 2 + stats.sem(d[10:]) ** 2) ** 0.5 / 2)


@pytest.mark.parametrize("level", [0.05, 0.005])
@pytest.mark.parametrize("spread", [(0.05, 0.1), (0.1, 0.02)])
def test_p_values_hold_their_level_far_into_the_tail(level, spread):
    """Two equal arms of three seeds, 4,000 studies: no more false claims than 1.1 times the level, plus noise."""
    rng = np.random.default_rng(3)
    seed_sd, rest_sd = spread
    studies, wrong = 4000, 0
    for _ in range(studies):
        problems = rng.normal(0, 0.3, (1, 30))
        a, b = (problems + rng.normal(0, seed_sd, (3, 1)) + rng.normal(0, rest_sd, (3, 30)) for _ in range(2))
        wrong += welch(a, b)[1] < level
    assert wrong / studies <= 1.1 * level + 3 * (level / studies) ** 0.5


def test_equal_outcomes_have_p_one_and_rounding_is_no_evidence():
    same = np.full((3, 10), 0.1 + 0.2)
    assert welch(same, np.full((3, 10), 0.3)) == (0.0, 1.0, np.inf)
    assert welch(same, np.full((3, 10), 0.7)) == (0.0, 0.0, np.inf)


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


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_minimum_detectable_of_few_seeds_has_the_power_it_states(seeds):
    """Student's test of two arms of so many seeds finds the stated difference in 80 %, give or take two points."""
    error, freedom = (2 / seeds) ** 0.5, 2 * (seeds - 1)
    d = minimum_detectable(error, freedom=freedom)
    rng = np.random.default_rng(0)
    p = stats.ttest_ind(rng.normal(d, 1, (seeds, 20_000)), rng.normal(0, 1, (seeds, 20_000))).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.02)
    assert (seeds < 10) == (d > 1.1 * minimum_detectable(error))


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


def test_aggregate_intervals_hold_their_estimate_and_equal_a_loop():
    rng = np.random.default_rng(4)
    x, y = rng.normal(0.6, 0.1, (5, 3)), rng.normal(0.5, 0.1, (6, 3))
    iqm = interquartile_mean_interval(x, np.random.default_rng(0))
    assert iqm.low < interquartile_mean(x) == iqm.estimate < iqm.high
    poi = improvement_interval(x, y, np.random.default_rng(0))
    assert poi.low < probability_of_improvement(x, y) == poi.estimate <= poi.high
    slow = []
    for _ in range(4000):
        drawn = np.stack([x[rng.integers(0, 5, 5), task] for task in range(3)], axis=1)
        slow.append(stats.trim_mean(drawn, 0.25, axis=None))
    assert np.quantile(slow, [0.025, 0.975]) == pytest.approx([iqm.low, iqm.high], abs=0.01)


@pytest.mark.parametrize("call", [
    lambda: standard_error([0.5]), lambda: expected_error(1, 0.3, 8), lambda: minimum_detectable(0.1, alpha=0),
    lambda: interquartile_mean([]), lambda: probability_of_improvement([[1, 2]], [[1]]),
    lambda: paired_t(np.zeros(3), np.zeros(4)),
])  # fmt: skip
def test_refusals_are_named(call):
    with pytest.raises(HarnessError):
        call()
