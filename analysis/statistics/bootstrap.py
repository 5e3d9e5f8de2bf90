"""Confidence intervals over training seeds and problems by a hierarchical bootstrap.

The problems are the same for every seed and arm: seeds and problems are crossed, not nested. So one resample
draws seeds (each arm its own) and then one set of problems shared by all: the pigeonhole bootstrap of Owen
(2007). Drawing problems anew within every seed would treat 10 seeds on 30 problems as 300 problems and give
intervals far too short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from harness.errors import HarnessError

MIN_SEEDS = 3
"""Below it seeds are not resampled and an interval speaks of these runs only, not of the method."""
RESAMPLES = 10_000
LEVEL = 0.95
_CHUNK = 4_000_000  # elements of one block of problem weights, 32 MB

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval, in the unit of the scores."""

    estimate: float
    low: float
    high: float
    seeds: int
    """The fewest seeds that went into it."""
    problems: int

    @property
    def method_level(self) -> bool:
        """Whether seeds were resampled, so that it speaks of the method and not of these runs alone."""
        return self.seeds >= MIN_SEEDS


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Resampled means of several arms; column j of every arm used the same problems."""

    estimates: Floats
    """(arms,)"""
    values: Floats
    """(arms, resamples)"""
    seeds: tuple[int, ...]
    problems: int

    def interval(self, arm: int, level: float = LEVEL) -> Interval:
        """Percentile interval of one arm's mean."""
        return percentile(float(self.estimates[arm]), self.values[arm], self.seeds[arm], self.problems, level)


def resample(
    scores: Sequence[Floats],
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    strata: NDArray[np.int64] | None = None,
    small_sample: bool = True,
) -> Draws:
    """Draws seeds, then problems, and gives every arm's resampled mean.

    A mean is linear in the weights of seeds and problems, so a draw is two count vectors and the whole
    bootstrap two matrix products: nothing of size resamples x seeds x problems is ever made.

    Args:
        scores: one array (seeds, problems) an arm, columns the same problems in the same order in all; the
            number of seeds may differ.
        rng: the only source of randomness.
        strata: (problems,) a benchmark's number for every problem; problems are drawn within a benchmark and
            benchmarks count equally. None is one benchmark.
        small_sample: widens the draws about the mean by t_{m-1} / z * sqrt(m / (m - 1)) for m seeds and
            likewise problems, because m draws from m values vary by (m - 1) / m too little and 3 seeds need
            Student's t.

    Raises:
        HarnessError: no arm, different problems, fewer than two problems in a benchmark, or a score that is
        NaN.
    """
    arms = [np.asarray(x, dtype=np.float64) for x in scores]
    _check(arms)
    problems = arms[0].shape[1]
    groups = _groups(strata, problems)
    estimates = np.array([_stratified_mean(x.mean(axis=0), groups) for x in arms])
    seed_weights = [_weights(rng, len(x), resamples, small_sample, len(x) >= MIN_SEEDS) for x in arms]
    values = np.empty((len(arms), resamples))
    rows = max(1, _CHUNK // problems)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        problem_weights = _problem_weights(rng, groups, problems, stop - start, small_sample)
        for i, (x, weights) in enumerate(zip(arms, seed_weights, strict=True)):
            values[i, start:stop] = np.einsum("bs,bs->b", problem_weights @ x.T, weights[start:stop])
    return Draws(estimates, values, tuple(len(x) for x in arms), problems)


def percentile(estimate: float, values: Floats, seeds: int, problems: int, level: float = LEVEL) -> Interval:
    """The interval between the outer percentiles of resampled values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), seeds, problems)


def widening(m: int, level: float = LEVEL) -> float:
    """By how much m draws from m values must be widened to be an interval of Student's t; 1 for large m."""
    if m < 2:
        return 0.0
    t = float(stdtrit(m - 1, (1 + level) / 2))
    return t / float(ndtri((1 + level) / 2)) * (m / (m - 1)) ** 0.5


def _weights(rng: np.random.Generator, m: int, resamples: int, small_sample: bool, drawn: bool = True) -> Floats:
    """(resamples, m) weights that sum to one in every row."""
    if not drawn:
        return np.full((resamples, m), 1.0 / m)
    weights = _counts(rng, m, resamples) / m
    return 1.0 / m + widening(m) * (weights - 1.0 / m) if small_sample else weights


def _counts(rng: np.random.Generator, m: int, resamples: int) -> NDArray[np.int64]:
    """(resamples, m) how often each of m was drawn in m draws; several times faster than `rng.multinomial`."""
    drawn = rng.integers(0, m, (resamples, m)) + m * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * m).reshape(resamples, m)


def _problem_weights(
    rng: np.random.Generator,
    groups: list[NDArray[np.int64]],
    problems: int,
    resamples: int,
    small_sample: bool,
) -> Floats:
    weights = np.empty((resamples, problems))
    for columns in groups:
        weights[:, columns] = _weights(rng, len(columns), resamples, small_sample) / len(groups)
    return weights


def _stratified_mean(by_problem: Floats, groups: list[NDArray[np.int64]]) -> float:
    return float(np.mean([by_problem[columns].mean() for columns in groups]))


def _groups(strata: NDArray[np.int64] | None, problems: int) -> list[NDArray[np.int64]]:
    labels = np.zeros(problems, dtype=np.int64) if strata is None else np.asarray(strata)
    if labels.shape != (problems,):
        raise HarnessError(f"strata of shape {labels.shape} for {problems} problems: give one benchmark a problem")
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    smallest = min(len(columns) for columns in groups)
    if smallest < 2:
        raise HarnessError("a benchmark of one problem has no interval over problems: use at least 2")
    return groups


def _check(arms: list[Floats]) -> None:
    if not arms:
        raise HarnessError("no arm to resample: the selection of runs is empty")
    for x in arms:
        if x.ndim != 2 or 0 in x.shape:
            raise HarnessError(f"scores of shape {x.shape}: expected (seeds, problems), each at least 1")
        if x.shape[1] != arms[0].shape[1]:
            raise HarnessError(
                f"arms with {arms[0].shape[1]} and {x.shape[1]} problems: compare on the problems they share"
            )
        if not np.isfinite(x).all():
            raise HarnessError("a score is NaN or infinite: leave out problems that a run did not answer")
