"""How small a difference a design can find, by the estimator that judges differences.

The test is carried out in thought: the mean squares are drawn from their distributions, each draw gives the variance,
degrees of freedom and critical value that `difference.paired` would use, and the true difference is sought that is
found with the wanted probability. So few seeds cost what they really cost: the scatter of the estimated variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr, stdtrit

from analysis.statistics.components import (
    MIN_SEEDS,
    Floats,
    Seeds,
    Sources,
    arrange,
    problem_variance,
    satterthwaite,
    seeds,
)
from harness.errors import HarnessError

POWER = 0.8
_NODES = (8, 16)  # quantiles of the mean square of problems, and of those of seeds


@dataclass(frozen=True, slots=True)
class Noise:
    """Variance components of a comparison of two arms alike, each in units of score squared and per unit."""

    gains: float
    """Over problems: of the true gain of one arm over the other on a problem."""
    seeds: float
    """Over training seeds: of one arm's true mean score."""
    interaction: float
    """Of one seed on one problem, beyond the sampling of responses."""
    sampling: float
    """Of one sample of a response: the mean of p (1 - p) over problems."""

    def __post_init__(self) -> None:
        for name in ("gains", "seeds", "interaction", "sampling"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise HarnessError(f"{name}={value}: a variance is 0 or more")

    def residual(self, samples: int) -> float:
        """Variance of one seed's score on one problem from so many samples."""
        return self.interaction + self.sampling / samples


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two arms of earlier runs on the same problems."""

    arm: ArrayLike
    """(seeds, problems) success rates c / n: pass@1."""
    base: ArrayLike
    samples: float
    """n, responses a problem and seed."""
    strata: ArrayLike | None = None
    """(problems,) a benchmark's number. Components are those of as many problems of one benchmark that would give the
    same variance."""


def minimum_detectable(
    noise: Noise, seeds: int, problems: int, samples: int, comparisons: int = 1, power: float = POWER
) -> float:
    """The smallest true difference that a planned comparison finds with this probability, in the unit of the scores.

    Two arms of so many seeds each answer the same problems so many times; the test is that of the report, two-sided at
    0.05 / comparisons (Bonferroni; Holm finds at least as much).

    Args:
        noise: what earlier runs showed (`measured`), or assumptions (`assumed`).

    Returns:
        A value in (0, 1]; infinity below three seeds, where no test is made, and where even 100 points may be missed.

    Raises:
        HarnessError: fewer than one seed or sample, fewer than two problems, or a power outside (0, 1).
    """
    if seeds < 1 or problems < 2 or samples < 1 or comparisons < 1:
        raise HarnessError(
            f"seeds={seeds}, problems={problems}, samples={samples}, comparisons={comparisons}: expected at least"
            " 1, 2, 1 and 1"
        )
    if seeds < MIN_SEEDS:
        return math.inf
    residual = noise.residual(samples) / (seeds * problems)
    arm = Seeds(noise.seeds / seeds + residual, residual, seeds)
    sources = Sources(noise.gains / problems + 2 * residual, problems - 1, (arm, arm))
    return detectable(sources, comparisons, power)


def detectable(sources: Sources, comparisons: int = 1, power: float = POWER) -> float:
    """As `minimum_detectable`, from the variance of a difference by source, taken for the true one.

    Infinity where even 100 points may be missed.
    """
    if not 0 < power < 1 or comparisons < 1:
        raise HarnessError(f"power={power}, comparisons={comparisons}: expected within (0, 1), at least 1")
    error, critical = _experiments(sources, 0.05 / comparisons)

    def found(difference: float) -> float:
        return float((ndtr((difference - critical) / error) + ndtr((-difference - critical) / error)).mean())

    if found(1.0) < power:
        return math.inf
    return float(brentq(lambda d: found(d) - power, 0.0, 1.0, xtol=1e-6))


def chance(sources: Sources, difference: float, comparisons: int = 1) -> float:
    """The probability that the test finds this true difference."""
    error, critical = _experiments(sources, 0.05 / comparisons)
    return float((ndtr((difference - critical) / error) + ndtr((-difference - critical) / error)).mean())


def measured(earlier: Sequence[Compared]) -> Noise | None:
    """The components that comparisons of earlier runs show, the mean over those with three seeds an arm; None without.

    Mean squares are solved for the components; what comes out negative over all comparisons together is 0. Sampling
    noise is told from that of seed and problem by p (1 - p) of every seed and problem, without bias. From one sample a
    problem the two cannot be told apart: all is taken for sampling noise, and a plan with more samples is too hopeful.

    Raises:
        HarnessError: see `components.arrange`; samples below 1.
    """
    found = [parts for one in earlier if (parts := _solved(one)) is not None]
    if not found:
        return None
    gains, scatter, interaction, sampling = (max(float(value), 0.0) for value in np.mean(found, axis=0))
    return Noise(gains, scatter, interaction, sampling)


def assumed(rate: float, *, heterogeneity: float = 0.5, gain_sd: float = 0.1, seed_sd: float = 0.01) -> Noise:
    """Components before anything was run.

    Args:
        rate: expected success rate, in (0, 1).
        heterogeneity: share of rate (1 - rate) that lies between problems; 1 if each is always or never solved.
        gain_sd: standard deviation over problems of the gain, as a rate.
        seed_sd: standard deviation over seeds of the mean score, as a rate.

    Raises:
        HarnessError: a rate or share outside its range.
    """
    if not 0 < rate < 1 or not 0 <= heterogeneity <= 1:
        raise HarnessError(f"rate={rate}, heterogeneity={heterogeneity}: expected within (0, 1) and within [0, 1]")
    return Noise(gain_sd**2, seed_sd**2, 0.0, rate * (1 - rate) * (1 - heterogeneity))


def _solved(one: Compared) -> tuple[float, float, float, float] | None:
    """(gains, seeds, interaction, sampling), of which some may be negative by chance; None below three seeds."""
    if not one.samples >= 1:
        raise HarnessError(f"samples={one.samples}: at least 1")
    arms, layout = arrange([one.arm, one.base], one.strata)
    found = [s for x in arms if (s := seeds(x, layout)) is not None]
    if len(found) < len(arms):
        return None
    count = arms[0].shape[1]
    variance, _ = problem_variance(arms[0].mean(axis=0) - arms[1].mean(axis=0), layout)
    residual = float(np.mean([s.residual * s.count for s in found])) * count
    sampling = residual
    if one.samples > 1:
        within = [float((layout.weights**2 * (x * (1 - x)).mean(axis=0)).sum()) * count for x in arms]
        sampling = float(np.mean(within)) * one.samples / (one.samples - 1)
    return (
        (variance - sum(s.residual for s in found)) * count,
        float(np.mean([(s.between - s.residual) * s.count for s in found])),
        residual - sampling / one.samples,
        sampling,
    )


def _experiments(sources: Sources, level: float) -> tuple[float, Floats]:
    """(true standard error, (draws,) half widths of the test at this level in repetitions of the study)."""
    arms = sources.seeds
    truth = sources.problems + sum(arm.net for arm in arms)
    shape = (_NODES[0],) + (_NODES[1],) * len(arms)
    problems = sources.problems * _square(sources.problem_freedom, 0, shape)
    drawn = [
        (np.maximum(arm.between, arm.residual) * _square(arm.count - 1, i, shape), arm.residual, arm.count)
        for i, arm in enumerate(arms, start=1)
    ]
    variance, freedom = satterthwaite(problems, sources.problem_freedom, drawn)
    return truth**0.5, stdtrit(freedom, 1 - level / 2) * np.sqrt(variance)


def _square(freedom: float, axis: int, shape: tuple[int, ...]) -> Floats:
    """Quantiles of a mean square with expectation 1 along one axis of the shape."""
    if math.isinf(freedom):
        return np.ones(shape)
    at = (np.arange(shape[axis]) + 0.5) / shape[axis]
    values = gammaincinv(freedom / 2, at) * 2 / freedom
    view = [1] * len(shape)
    view[axis] = shape[axis]
    return np.broadcast_to(values.reshape(view), shape)
