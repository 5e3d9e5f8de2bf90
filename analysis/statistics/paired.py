"""Arms compared with one baseline arm on the same problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from analysis.statistics.bootstrap import LEVEL, MIN_SEEDS, Draws, Interval, percentile
from analysis.statistics.effect import minimum_detectable, standard_error
from harness.errors import HarnessError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """One arm minus the baseline arm, in the unit of the scores."""

    interval: Interval
    relative: Interval | None
    """Relative change, (arm - baseline) / baseline; None where the baseline is 0."""
    p: float
    """Two-sided, see `welch`; not yet adjusted for other comparisons."""
    error: float
    """Standard error of the difference: over seeds and problems, or over problems only below three seeds."""
    freedom: float
    """Student's degrees of freedom of `error`."""

    def detectable(self, comparisons: int = 1) -> float:
        """Difference that such a design finds with 80 % power at 5 %, one of so many comparisons (Bonferroni)."""
        return minimum_detectable(self.error, alpha=0.05 / comparisons, freedom=self.freedom)

    @property
    def method_level(self) -> bool:
        """Whether both arms have the seeds that a claim on the method needs."""
        return self.interval.seeds >= MIN_SEEDS


def difference(
    draws: Draws,
    scores: Sequence[Floats],
    arm: int,
    against: int,
    *,
    strata: NDArray[np.int64] | None = None,
    level: float = LEVEL,
) -> Difference:
    """The difference of two arms of one bootstrap, whose resamples share their problems.

    Args:
        draws: from `bootstrap.resample(scores, ..., strata=strata)`.
        scores: one (seeds, problems) array an arm.
        arm, against: positions of the two in `scores`.

    Raises:
        HarnessError: an arm compared with itself.
    """
    if arm == against:
        raise HarnessError("an arm compared with itself: choose another arm with --against")
    values = draws.values[arm] - draws.values[against]
    base = float(draws.estimates[against])
    estimate = float(draws.estimates[arm]) - base
    seeds = min(draws.seeds[arm], draws.seeds[against])
    error, p, freedom = welch(scores[arm], scores[against], strata)
    relative = None
    if base > 0 and (draws.values[against] > 0).all():
        relative = percentile(estimate / base, values / draws.values[against], seeds, draws.problems, level)
    return Difference(
        interval=percentile(estimate, values, seeds, draws.problems, level),
        relative=relative,
        p=p,
        error=error,
        freedom=freedom,
    )


def welch(a: Floats, b: Floats, strata: NDArray[np.int64] | None = None) -> tuple[float, float, float]:
    """(standard error, two-sided p, degrees of freedom) of the difference of two arms' means, by Student's t.

    The variance is that of the seeds of a, of the seeds of b (each only from three seeds on) and of the
    problems' paired differences; the degrees of freedom are Satterthwaite's. Percentiles of resamples would
    do for one test at 5 %, but Holm looks far into the tail, where few seeds have Student's heavy one. With
    one seed each this is the paired t-test over problems, without spread over problems it is Welch's over
    seeds.

    Args:
        a, b: (seeds, problems), columns the same problems.
        strata: (problems,) a benchmark's number; benchmarks count equally.
    """
    labels = np.zeros(a.shape[1], dtype=np.int64) if strata is None else strata
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    parts: list[tuple[float, int]] = []  # (variance of the mean, its degrees of freedom)
    for x in (a, b):
        if len(x) >= MIN_SEEDS:
            by_seed = np.mean([x[:, columns].mean(axis=1) for columns in groups], axis=0)
            parts.append((float(by_seed.var(ddof=1)) / len(x), len(x) - 1))
    by_problem = a.mean(axis=0) - b.mean(axis=0)
    for columns in groups:
        d = by_problem[columns]
        parts.append((float(d.var(ddof=1)) / len(d) / len(groups) ** 2, len(d) - 1))
    return t_test(float(np.mean([by_problem[columns].mean() for columns in groups])), parts)


def t_test(mean: float, parts: Sequence[tuple[float, int]]) -> tuple[float, float, float]:
    """(standard error, two-sided p, Satterthwaite's degrees of freedom) of a mean whose variance has these parts.

    Args:
        parts: (variance of the mean, its degrees of freedom) of each.
    """
    variance = sum(v for v, _ in parts)
    if variance <= 1e-24:  # rounding noise around equal values is no spread
        return 0.0, 1.0 if abs(mean) < 1e-12 else 0.0, float("inf")
    freedom = variance**2 / sum(v**2 / df for v, df in parts)
    return variance**0.5, float(2 * stdtr(freedom, -abs(mean) / variance**0.5)), freedom


def paired_t(a: Floats, b: Floats) -> tuple[float, float, float]:
    """(mean difference, standard error, t) of two arms by problem: d_i = a_i - b_i, SE = sd(d) / sqrt(n).

    Args:
        a, b: (problems,) one value a problem, the same problems in the same order.

    Raises:
        HarnessError: different shapes, or fewer than two problems.
    """
    if a.shape != b.shape or a.ndim != 1:
        raise HarnessError(f"paired differences of shapes {a.shape} and {b.shape}: give the same problems for both")
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    error = standard_error(d)
    mean = float(d.mean())
    return mean, error, mean / error if error > 0 else float("nan")
