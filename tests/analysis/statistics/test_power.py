"""The stated power is the power that simulated studies have; components of variance are those put in."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import t as student

from analysis.statistics import difference, power
from analysis.statistics.power import Compared, Noise
from harness.errors import HarnessError

NOISE = Noise(gains=0.06**2, seeds=0.015**2, interaction=0.05**2, sampling=0.12)


def study(rng, noise, seeds, problems, samples, gain):
    """Two arms of normal scores with exactly these components, around one half."""
    level, gains = 0.1 * rng.normal(size=problems), noise.gains**0.5 * rng.normal(size=problems)
    rest = noise.residual(samples) ** 0.5
    arms = []
    for mean in (0.5 + level + gain + gains / 2, 0.5 + level - gains / 2):
        scatter = noise.seeds**0.5 * rng.normal(size=(seeds, 1)) + rest * rng.normal(size=(seeds, problems))
        arms.append(np.clip(mean + scatter, 0, 1))
    return arms


@pytest.mark.slow
@pytest.mark.parametrize("comparisons", [1, 5])
@pytest.mark.parametrize("design", [(3, 30, 32), (3, 500, 4), (5, 30, 32), (10, 60, 16)])
@pytest.mark.parametrize("noise", [NOISE, Noise(0.06**2, 0.0, 0.05**2, 0.12), Noise(0.04**2, 0.04**2, 0.0, 0.12)])
def test_planned_differences_are_found_in_four_of_five_studies(noise, design, comparisons):
    """1,500 studies: 80 %, give or take four points (three standard errors of the simulation)."""
    rng = np.random.default_rng([*design, comparisons])
    gain = power.minimum_detectable(noise, *design, comparisons)
    found = [difference.paired(*study(rng, noise, *design, gain)).p < 0.05 / comparisons for _ in range(1500)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.04)


def test_with_many_problems_and_no_scatter_over_seeds_it_is_the_textbook_formula():
    noise = Noise(0.1**2, 0.0, 0.0, 0.0)
    found = power.minimum_detectable(noise, 50, 10_000, 1)
    assert found == pytest.approx((1.95996 + 0.84162) * 0.1 / 100, rel=0.02)


def test_three_seeds_cost_what_students_t_says():
    """With seeds alone the test is Welch's, close to Student's with four degrees of freedom."""
    noise = Noise(0.0, 0.03**2, 0.0, 0.0)
    found = power.minimum_detectable(noise, 3, 10_000, 1)
    error = 0.03 * (2 / 3) ** 0.5
    assert found > (student.ppf(0.975, 4) + student.ppf(0.8, 4)) * error
    assert found < 1.3 * (student.ppf(0.975, 4) + student.ppf(0.8, 4)) * error


def test_every_investment_pays():
    base = power.minimum_detectable(NOISE, 3, 30, 8)
    assert power.minimum_detectable(NOISE, 4, 30, 8) < base
    assert power.minimum_detectable(NOISE, 3, 60, 8) < base
    assert power.minimum_detectable(NOISE, 3, 30, 16) < base
    assert power.minimum_detectable(NOISE, 3, 30, 8, comparisons=4) > base
    assert power.minimum_detectable(NOISE, 3, 30, 8, power=0.9) > base


def test_below_three_seeds_nothing_can_be_found():
    assert power.minimum_detectable(NOISE, 2, 30, 8) == math.inf
    assert power.minimum_detectable(Noise(1.0, 0.0, 0.0, 0.25), 3, 2, 1) == math.inf


def test_chance_and_detectable_difference_are_two_sides_of_one_thing():
    rng = np.random.default_rng(0)
    sources = difference.paired(*study(rng, NOISE, 5, 30, 8, 0.0)).sources
    for comparisons in (1, 6):
        least = power.detectable(sources, comparisons)
        assert power.chance(sources, least, comparisons) == pytest.approx(0.8, abs=1e-3)
    assert power.chance(sources, 0.0) < 0.06


@pytest.mark.parametrize("samples", [1, 4, 32])
def test_components_are_those_put_in(samples):
    """Binomial samples of rates with known effects; means over 300 studies."""
    rng = np.random.default_rng(samples)
    found, problems, count = [], 60, 5
    base = rng.normal(-0.5, 1.2, 4000)

    def rates(level, arm, seed, rest):
        return expit(level + arm + seed + rest)

    for _ in range(300):
        level = rng.choice(base, problems)
        arms = [
            rng.binomial(
                samples,
                rates(level, 0.3 * rng.normal(size=problems), 0.2 * rng.normal(size=(count, 1)),
                      0.4 * rng.normal(size=(count, problems))),
            ) / samples
            for _ in range(2)
        ]  # fmt: skip
        found.append(Compared(*arms, samples))
    mean = power.measured(found)
    # Truth by brute force: many draws of every effect at fixed levels.
    level, draws = base[:400, None, None], 60
    arm, seed = 0.3 * rng.normal(size=(400, 2, 1, 1)), 0.2 * rng.normal(size=(1, 1, draws, 1))
    rest = 0.4 * rng.normal(size=(400, 2, draws, 40))
    truth = rates(level[..., None], arm, seed, rest)
    by_seed = truth.mean(axis=3)
    gains = np.var(by_seed.mean(axis=2)[:, 0] - by_seed.mean(axis=2)[:, 1])
    seeds = by_seed.mean(axis=(0, 1)).var(ddof=1)
    sampling = (truth * (1 - truth)).mean()
    interaction = truth.var(axis=3).mean() + (by_seed - by_seed.mean(axis=0)).var(axis=2).mean()
    assert mean.gains == pytest.approx(gains, rel=0.35)
    assert mean.seeds == pytest.approx(seeds, rel=0.4)
    if samples == 1:  # cannot be told apart
        assert mean.interaction == 0
        assert mean.sampling == pytest.approx(sampling + interaction, rel=0.05)
    else:
        assert mean.sampling == pytest.approx(sampling, rel=0.05)
        assert mean.interaction == pytest.approx(interaction, rel=0.3)


def test_components_need_three_seeds():
    rng = np.random.default_rng(0)
    few = Compared(rng.random((2, 30)), rng.random((3, 30)), 8)
    enough = Compared(rng.random((3, 30)), rng.random((3, 30)), 8)
    assert power.measured([few]) is None
    assert power.measured([few, enough]) == power.measured([enough])


def test_components_of_several_benchmarks_give_the_same_variance():
    rng = np.random.default_rng(1)
    strata = np.array([0] * 10 + [1] * 90)
    level = rng.normal(0, 1, 100)
    logits = [level + 0.8 * rng.normal(size=100) + 0.8 * rng.normal(size=(6, 100)) for _ in range(2)]
    a, b = (rng.binomial(32, expit(x)) / 32 for x in logits)
    noise, direct = power.measured([Compared(a, b, 32, strata)]), difference.paired(a, b, strata)
    assert noise.gains / 100 + 2 * noise.residual(32) / 600 == pytest.approx(
        direct.sources.problems - difference.UNSEEN / 4 * (1 / 10**2 + 1 / 90**2) / 4
    )


def test_assumptions():
    noise = power.assumed(0.3, heterogeneity=0.6, gain_sd=0.1, seed_sd=0.02)
    assert (noise.sampling, noise.gains, noise.seeds) == pytest.approx((0.3 * 0.7 * 0.4, 0.01, 0.0004))
    # more samples do not cure thirty problems
    assert power.minimum_detectable(noise, 5, 30, 1000) > 0.8 * power.minimum_detectable(noise, 5, 30, 32)


@pytest.mark.parametrize("call", [
    lambda: power.minimum_detectable(NOISE, 3, 1, 8), lambda: power.minimum_detectable(NOISE, 3, 30, 0),
    lambda: power.minimum_detectable(NOISE, 3, 30, 8, power=1.0), lambda: Noise(-1.0, 0, 0, 0),
    lambda: Noise(math.nan, 0, 0, 0), lambda: power.assumed(1.0), 
    lambda: power.measured([Compared(np.zeros((3, 30)), np.zeros((3, 30)), 0)]),
])  # fmt: skip
def test_refusals_are_named(call):
    with pytest.raises(HarnessError):
        call()
