from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from analysis.statistics import estimate


def test_in_the_middle_it_is_students_interval_over_problems():
    x = np.random.default_rng(0).normal(0.5, 0.1, (1, 400)).clip(0, 1)
    found = estimate.score(x)
    half = stats.t.ppf(0.975, 399) * stats.sem(x[0])
    assert [found.low, found.high] == pytest.approx([x.mean() - half, x.mean() + half], abs=2e-4)


def test_one_sample_a_problem_is_wilsons_interval_of_a_proportion():
    x = np.zeros((1, 1000))
    x[0, :30] = 1
    found = estimate.score(x)
    wilson = stats.binomtest(30, 1000).proportion_ci(method="wilson")
    assert [found.low, found.high] == pytest.approx([wilson.low, wilson.high], rel=0.02)


def test_seeds_that_scatter_widen_it_and_those_below_three_cannot():
    x = np.repeat([[0.2], [0.8], [0.5]], 100, axis=1)
    three, two = estimate.score(x), estimate.score(x[:2])
    assert three.high - three.low > 0.5
    assert two.high - two.low < 0.02
    assert (three.method_level, two.method_level) == (True, False)


@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.parametrize("shape", [(1, 30), (3, 30), (10, 500)])
def test_all_right_or_all_wrong_leaves_doubt(rate, shape):
    found = estimate.score(np.full(shape, rate))
    assert found.estimate == rate
    assert found.low == 0 if rate == 0 else found.high == 1
    # about two problems: of 30 solved problems, 3 in 40 further ones may fail
    assert 1.5 / shape[1] < found.high - found.low < 3 / shape[1]


def test_it_holds_its_estimate_and_stays_in_range():
    rng = np.random.default_rng(3)
    for _ in range(300):
        seeds, problems = rng.integers(1, 6), rng.integers(2, 12)
        x = rng.binomial(4, rng.beta(0.3, 0.3, problems), (seeds, problems)) / 4
        found = estimate.score(x)
        assert 0 <= found.low <= found.estimate <= found.high <= 1
        assert found.high > found.low


def test_benchmarks_count_equally():
    x = np.concatenate((np.full((3, 10), 0.2), np.full((3, 1000), 0.6)), axis=1)
    assert estimate.score(x, [0] * 10 + [1] * 1000).estimate == pytest.approx(0.4)


def test_over_seeds():
    few = estimate.over_seeds([0.4, 0.5])
    assert (few.estimate, math.isnan(few.low)) == (pytest.approx(0.45), True)
    same = estimate.over_seeds([0.1 + 0.2] * 3)
    assert math.isnan(same.high)
    values = np.array([0.4, 0.5, 0.55, 0.5])
    plain = estimate.over_seeds(values, rate=False)
    half = stats.t.ppf(0.975, 3) * stats.sem(values)
    assert [plain.low, plain.high] == pytest.approx([values.mean() - half, values.mean() + half])
    rate = estimate.over_seeds([0.9, 0.99, 1.0])
    assert 0 < rate.low < 0.9
    assert rate.high < 1
