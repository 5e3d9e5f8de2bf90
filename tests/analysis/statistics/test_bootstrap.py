"""The crossed bootstrap against the plain loop, against theory, and for coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from analysis.statistics.bootstrap import resample, widening
from harness.errors import HarnessError


def crossed(rng, seeds, problems, seed_sd, problem_sd, rest_sd):
    return (
        0.5
        + rng.normal(0, seed_sd, (seeds, 1))
        + rng.normal(0, problem_sd, (1, problems))
        + rng.normal(0, rest_sd, (seeds, problems))
    )


def test_equals_a_loop_over_resamples_in_distribution():
    x = crossed(np.random.default_rng(0), 5, 20, 0.1, 0.2, 0.05)
    fast = resample([x], np.random.default_rng(1), resamples=20_000, small_sample=False).values[0]
    rng = np.random.default_rng(2)
    slow = np.array([x[rng.integers(0, 5, 5)][:, rng.integers(0, 20, 20)].mean() for _ in range(20_000)])
    assert fast.mean() == pytest.approx(slow.mean(), abs=0.003)
    assert fast.std() == pytest.approx(slow.std(), rel=0.03)
    assert np.quantile(fast, [0.025, 0.5, 0.975]) == pytest.approx(np.quantile(slow, [0.025, 0.5, 0.975]), abs=0.01)


def test_arms_share_their_problems_so_that_a_constant_difference_has_no_spread():
    x = np.random.default_rng(0).random((1, 30))
    draws = resample([x, x + 0.1], np.random.default_rng(1), resamples=500)
    assert (draws.values[1] - draws.values[0]) == pytest.approx(0.1)
    assert draws.values[0].std() > 0.01


def test_benchmarks_count_equally_whatever_their_size():
    x = np.concatenate((np.zeros((1, 10)), np.ones((1, 1000))), axis=1)
    strata = np.array([0] * 10 + [1] * 1000)
    draws = resample([x], np.random.default_rng(0), resamples=100, strata=strata)
    assert draws.estimates[0] == pytest.approx(0.5)
    assert draws.values[0] == pytest.approx(0.5)


def test_below_three_seeds_only_problems_are_resampled():
    x = np.repeat([[0.0], [1.0]], 20, axis=1)  # all the spread is between the two seeds
    draws = resample([x], np.random.default_rng(0), resamples=200)
    assert draws.values[0] == pytest.approx(0.5)
    assert not draws.interval(0).method_level
    three = resample([np.repeat([[0.0], [1.0], [1.0]], 20, axis=1)], np.random.default_rng(0), resamples=200)
    assert three.values[0].std() > 0.1
    assert three.interval(0).method_level


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("spread", [(0.03, 0.35, 0.1), (0.1, 0.1, 0.1), (0.1, 0.0, 0.05)])
def test_coverage_of_95_percent_intervals(seeds, spread):
    """Over 300 simulated studies of 30 problems: at least 92 %, the lower end of what 300 trials at 95 % give."""
    rng = np.random.default_rng(seeds)
    hits = 0
    for _ in range(300):
        found = resample([crossed(rng, seeds, 30, *spread)], rng, resamples=600).interval(0)
        hits += found.low <= 0.5 <= found.high
    assert hits / 300 >= 0.92


def test_nested_resampling_would_not_cover():
    """Why problems are drawn once for all seeds: drawn anew in every seed, intervals are far too short."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        x = crossed(rng, 10, 30, 0.03, 0.35, 0.1)
        seeds = rng.integers(0, 10, (400, 10))
        problems = rng.integers(0, 30, (400, 10, 30))
        means = x[seeds[:, :, None], problems].mean(axis=(1, 2))
        low, high = np.quantile(means, [0.025, 0.975])
        hits += low <= 0.5 <= high
    assert hits / 200 < 0.7


def test_false_positive_rate_of_paired_differences():
    """Two equal arms of three seeds: at most 7 % of 300 studies call them different at 5 %."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(300):
        problems = rng.normal(0, 0.3, (1, 30))
        a, b = (0.5 + problems + rng.normal(0, 0.05, (3, 1)) + rng.normal(0, 0.1, (3, 30)) for _ in range(2))
        draws = resample([a, b], rng, resamples=600)
        low, high = np.quantile(draws.values[1] - draws.values[0], [0.025, 0.975])
        wrong += low > 0 or high < 0
    assert wrong / 300 <= 0.07


def test_widening_is_students_t():
    assert widening(3) == pytest.approx(student(2).ppf(0.975) / 1.959964 * (3 / 2) ** 0.5, rel=1e-6)
    assert widening(10_000) == pytest.approx(1.0, abs=1e-3)


def test_the_same_generator_gives_the_same_interval():
    x = np.random.default_rng(0).random((3, 30))
    one, two = (resample([x], np.random.default_rng(7), resamples=200).interval(0) for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([], "no arm"),
        ([np.zeros((2, 30)), np.zeros((2, 29))], "30 and 29 problems"),
        ([np.full((2, 30), np.nan)], "NaN"),
        ([np.zeros(30)], r"\(seeds, problems\)"),
        ([np.zeros((3, 1))], "one problem"),
    ],
)
def test_refuses(scores, said):
    with pytest.raises(HarnessError, match=said):
        resample(scores, np.random.default_rng(0))
