"""The estimator of differences against scipy, an analysis of variance in plain loops, and simulated truth."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.statistics import difference, estimate
from analysis.statistics.components import arrange, satterthwaite, seeds
from harness.errors import HarnessError
from tests.support.shared import SHARED, needs


def drawn(rng, count, problems=30, effect=0.3, samples=8, shift=0.0, common=None):
    """(seeds, problems) success rates with effects of seed, and of seed and problem, on the logit scale."""
    level = rng.normal(-0.8, 1.5, problems) if common is None else common
    logits = level + shift + effect * rng.normal(size=(count, 1)) + 0.3 * rng.normal(size=(count, problems))
    return rng.binomial(samples, 1 / (1 + np.exp(-logits))) / samples


def anova(x):
    """(MS_seeds / SP, MS_residual / SP) in plain loops."""
    count, problems = x.shape
    grand = sum(x[s][p] for s in range(count) for p in range(problems)) / x.size
    rows = [sum(x[s][p] for p in range(problems)) / problems for s in range(count)]
    columns = [sum(x[s][p] for s in range(count)) / count for p in range(problems)]
    between = problems * sum((row - grand) ** 2 for row in rows) / (count - 1)
    rest = sum((x[s][p] - rows[s] - columns[p] + grand) ** 2 for s in range(count) for p in range(problems))
    return between / x.size, rest / ((count - 1) * (problems - 1)) / x.size


@pytest.mark.parametrize("count", [3, 5, 10])
def test_mean_squares_are_those_of_a_two_way_analysis_of_variance(count):
    x = drawn(np.random.default_rng(count), count)
    (arm,), layout = arrange([x])
    found = seeds(arm, layout)
    assert (found.between, found.residual) == pytest.approx(anova(x))
    assert seeds(arm[:2], layout) is None


def test_the_difference_is_the_formula_of_the_docs():
    rng = np.random.default_rng(0)
    a, b = drawn(rng, 3, effect=0.8), drawn(rng, 5, effect=0.0)
    found = difference.paired(a, b)
    d = a.mean(axis=0) - b.mean(axis=0)
    terms = [(d.var(ddof=1) / 30 + difference.UNSEEN / 4 / 30**2, 29)]
    variance = terms[0][0]
    for x in (a, b):
        between, residual = anova(x)
        variance += max(between - residual, 0)
        terms += [(between, len(x) - 1)] if between > residual else []
    freedom = max(variance**2 / sum(v**2 / df for v, df in terms), 2)
    assert found.interval.estimate == pytest.approx(d.mean())
    assert found.error == pytest.approx(variance**0.5)
    assert found.freedom == pytest.approx(freedom, rel=1e-3)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(d.mean()) / variance**0.5, freedom), rel=1e-3)
    assert found.interval.seeds == 3


def test_the_residual_counts_once():
    """Without scatter over seeds the error is that of the problems, not of problems and seeds."""
    rng = np.random.default_rng(1)
    variances = []
    for _ in range(2000):
        common = rng.normal(0, 1, 40)
        a, b = (drawn(rng, 4, 40, 0.0, 1, common=common) for _ in range(2))
        d = difference.paired(a, b)
        (arm,), layout = arrange([a])
        variances.append((d.interval.estimate, d.sources.problems, seeds(arm, layout)))
    true = np.var([v for v, _, _ in variances])
    assert np.mean([v for _, v, _ in variances]) == pytest.approx(true, rel=0.1)
    raw = np.mean([s.between - s.residual for _, _, s in variances])
    assert abs(raw) < 0.05 * true


def test_one_seed_each_is_the_paired_t_test_without_a_claim():
    a, b = np.random.default_rng(0).random((2, 1, 30))
    found = difference.paired(a, b)
    low, high = stats.ttest_rel(a[0], b[0]).confidence_interval()
    assert [found.interval.low, found.interval.high] == pytest.approx([low, high], abs=2e-4)
    assert (found.p, found.method_level, found.interval.method_level) == (None, False, False)
    assert math.isnan(found.detectable())


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (10, 2), (1, 5)])
def test_below_three_seeds_in_either_arm_there_is_no_p(counts):
    rng = np.random.default_rng(2)
    a, b = (drawn(rng, count, shift=shift) for count, shift in zip(counts, (4.0, -4.0), strict=True))
    found = difference.paired(a, b)
    assert found.p is None
    assert found.interval.low > 0
    assert difference.over_seeds(a.mean(axis=1), b.mean(axis=1)).p is None


def test_logged_scores_are_compared_by_welch():
    rng = np.random.default_rng(1)
    a, b = rng.random(4), rng.random(6)
    found = difference.over_seeds(a, b)
    welch = stats.ttest_ind(a, b, equal_var=False)
    assert found.p == pytest.approx(welch.pvalue)
    assert [found.interval.low, found.interval.high] == pytest.approx([*welch.confidence_interval()])


def test_without_spread_over_problems_it_is_welch_over_seeds():
    rng = np.random.default_rng(1)
    a, b = (np.repeat(rng.random((n, 1)), 400, axis=1) for n in (4, 6))
    assert difference.paired(a, b).p == pytest.approx(
        stats.ttest_ind(a[:, 0], b[:, 0], equal_var=False).pvalue, rel=1e-3
    )


def test_benchmarks_count_equally():
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 1, 440))
    strata = np.array([0] * 40 + [1] * 400)
    d = a[0] - b[0]
    found = difference.paired(a, b, strata)
    assert found.interval.estimate == pytest.approx((d[:40].mean() + d[40:].mean()) / 2)
    assert found.error == pytest.approx((stats.sem(d[:40]) ** 2 + stats.sem(d[40:]) ** 2) ** 0.5 / 2, rel=2e-3)


def test_a_seed_that_differs_by_benchmark_is_no_residual():
    """Seeds that win on one benchmark what they lose on the other have no scatter in the mean of both."""
    swing = np.array([[0.1], [-0.1], [0.2], [-0.2]])
    x = 0.5 + np.hstack((np.repeat(swing, 20, axis=1), -np.repeat(swing, 20, axis=1)))
    (arm,), layout = arrange([x], [0] * 20 + [1] * 20)
    assert seeds(arm, layout).between == pytest.approx(0, abs=1e-12)
    (arm,), layout = arrange([x + 0.1 * swing], [0] * 20 + [1] * 20)
    found = seeds(arm, layout)
    assert found.net == pytest.approx(np.var(0.1 * swing, ddof=1) / 4)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.full((3, 30), 0.5), np.full((3, 30), 0.5)),
        (np.ones((3, 30)), np.ones((3, 30))),
        (np.full((3, 2), 0.75), np.full((3, 2), 0.5)),
        (np.ones((3, 2)), np.zeros((3, 2))),
    ],
)
def test_no_scatter_is_no_certainty(a, b):
    found = difference.paired(a, b)
    assert found.interval.low < found.interval.estimate
    assert found.interval.high > found.interval.estimate or found.interval.high == 1
    assert found.p > 0
    assert math.isnan(found.detectable())  # such a study does not show what it could have found
    score = estimate.score(a)
    assert score.high - score.low > 0.02


def test_two_problems_have_one_degree_of_freedom_however_far_apart_the_arms():
    found = difference.paired(np.ones((3, 2)), np.zeros((3, 2)))
    assert found.freedom == 1
    assert found.p > 0.01


def test_equal_seeds_of_a_log_say_nothing():
    found = difference.over_seeds([0.5] * 3, [0.1 + 0.2] * 3)
    assert found.p is None
    assert math.isnan(found.interval.low)
    assert found.interval.estimate == pytest.approx(0.2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 6), st.integers(3, 6), st.sampled_from([-1.5, -0.5, 0.0, 0.5, 1.5]))
def test_interval_and_p_never_contradict_each_other(seed, first, second, shift):
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 1.5, 20)
    found = difference.paired(drawn(rng, first, 20, shift=shift, common=common), drawn(rng, second, 20, common=common))
    assert (found.p < 0.05) == (found.interval.low > 0 or found.interval.high < 0)
    assert found.freedom >= min(first, second) - 1


def test_the_other_way_round_is_the_same_with_the_other_sign():
    rng = np.random.default_rng(5)
    a, b = drawn(rng, 3), drawn(rng, 4)
    one, two = difference.paired(a, b), difference.paired(b, a)
    assert (one.p, one.interval.low) == (pytest.approx(two.p), pytest.approx(-two.interval.high))


def test_relative_change():
    found = difference.paired(np.full((3, 10), 0.5), np.full((3, 10), 0.4))
    assert found.relative == pytest.approx(0.25)
    assert difference.paired(np.full((3, 10), 0.5), np.zeros((3, 10))).relative is None


def test_arrays_give_what_numbers_give():
    variance, freedom = satterthwaite(np.array([1.0, 4.0]), 29, [(np.array([3.0, 0.5]), 1.0, 3)])
    for i, (problems, between) in enumerate(((1.0, 3.0), (4.0, 0.5))):
        one = satterthwaite(problems, 29, [(between, 1.0, 3)])
        assert (variance[i], freedom[i]) == pytest.approx((float(one[0]), float(one[1])))
    assert variance == pytest.approx([3.0, 4.0])


@needs("logs/openai_gsm8k")
def test_paired_differences_of_the_gsm8k_systems():
    path = SHARED / "logs/openai_gsm8k/example_model_solutions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    names = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    arms = [np.array([[row[name]["is_correct"] for row in rows]], dtype=float) for name in names]
    for i in range(1, 4):
        found = difference.paired(arms[i], arms[0])
        low, high = stats.ttest_rel(arms[i][0], arms[0][0]).confidence_interval()
        assert [found.interval.low, found.interval.high] == pytest.approx([low, high], abs=1e-4)
        assert not found.method_level  # one outcome a system says nothing on how it was trained
    assert found.interval.estimate == pytest.approx(0.563 - 0.217, abs=0.001)
    # Unpaired, the two middle systems would need a larger difference: pairing pays.
    pooled = sum(float(stats.sem(arms[i][0])) ** 2 for i in (1, 2)) ** 0.5
    assert difference.paired(arms[1], arms[2]).error < pooled


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (np.zeros((2, 30)), np.zeros((2, 29)), "30 and 29 problems"),
        (np.full((2, 30), np.nan), np.zeros((2, 30)), "NaN"),
        (np.full((2, 30), 1.5), np.zeros((2, 30)), "1.5: pass@k lies between 0 and 1"),
        (np.zeros(30), np.zeros(30), r"\(seeds, problems\)"),
        (np.zeros((3, 1)), np.zeros((3, 1)), "one problem"),
    ],
)
def test_refuses(a, b, said):
    with pytest.raises(HarnessError, match=said):
        difference.paired(a, b)
