"""Whether two arms differ: interval, p-value and detectable difference of one estimator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from analysis.statistics import power
from analysis.statistics.components import (
    LEVEL,
    MIN_SEEDS,
    Seeds,
    Sources,
    arrange,
    by_seed,
    problem_variance,
    rates,
    seeds,
    unseen,
)
from analysis.statistics.estimate import Interval

UNSEEN = 1 / 24
"""A further problem of each benchmark, on which the arms differ by a half, counts for so much of a problem: arms that
agree on all problems asked are not equal for certain. 30 problems leave a standard error of 0.3 points at least. Set by
simulation, see docs/statistics.md."""
_NONE = float("nan")
_ROUNDING = 1e-24  # variance of rounding noise around equal values, which is no scatter


@dataclass(frozen=True, slots=True)
class Difference:
    """One arm minus another, in the unit of the scores."""

    interval: Interval
    relative: float | None
    """Relative change, difference / baseline; None where the baseline is 0."""
    p: float | None
    """Two-sided, for no difference between the methods; None where none can be given: below three seeds in either arm,
    or without any scatter. Not yet adjusted for other comparisons. Below 0.05 exactly where the interval leaves out 0.
    """
    sources: Sources
    """Where its variance comes from."""
    scatters: bool = True
    """Whether seeds or problems differ at all; where they do not, `sources` holds the unseen problem alone."""

    @property
    def error(self) -> float:
        """Standard error of the difference."""
        return self.sources.spread[0] ** 0.5

    @property
    def freedom(self) -> float:
        """Student's degrees of freedom of `error`."""
        return self.sources.spread[1]

    @property
    def method_level(self) -> bool:
        """Whether both arms have the seeds that a claim on the method needs, and show scatter."""
        return self.interval.method_level and self.p is not None

    def detectable(self, comparisons: int = 1) -> float:
        """True difference that this very test finds with 80 % power at 5 %, one of so many comparisons (Bonferroni).

        NaN where no test is made, and where nothing scatters: then the study does not show what it could find.
        """
        return power.detectable(self.sources, comparisons) if self.method_level and self.scatters else _NONE


def paired(arm: ArrayLike, base: ArrayLike, strata: ArrayLike | None = None) -> Difference:
    """Arm minus base on the same problems, by Student's t.

    V = V_problems of the paired differences + for each arm what its seeds add beyond the residual. Below three seeds in
    either arm the seeds' part is not known: interval over problems given these runs, and no p.

    Args:
        arm, base: (seeds, problems) pass@k, columns the same problems; the number of seeds may differ.
        strata: (problems,) a benchmark's number; benchmarks count equally.

    Raises:
        HarnessError: see `components.arrange`.
    """
    (a, b), layout = arrange([arm, base], strata)
    centre = float(by_seed(b, layout).mean())
    mean = float(by_seed(a, layout).mean()) - centre
    by_problem = a.mean(axis=0) - b.mean(axis=0)
    problems, freedom = problem_variance(by_problem, layout)
    claimed = min(len(a), len(b)) >= MIN_SEEDS
    known = tuple(s for x in (a, b) if (s := seeds(x, layout)) is not None) if claimed else ()
    sources = Sources(problems + unseen(layout, UNSEEN), freedom, known)
    scatters = problems + sum(s.between for s in known) > _ROUNDING
    return _difference(mean, centre, sources, min(len(a), len(b)), a.shape[1], claimed, scatters)


def over_seeds(arm: ArrayLike, base: ArrayLike) -> Difference:
    """Arm minus base from one score a seed, where problems are not known: Welch's t.

    Below three seeds in either arm, and where the seeds of both agree exactly, there are neither bounds nor p.

    Args:
        arm, base: (seeds,) pass@k.
    """
    a, b = (np.asarray(x, dtype=np.float64) for x in (arm, base))
    rates(np.concatenate((a, b)))
    fewest, centre = min(len(a), len(b)), float(b.mean())
    known: tuple[Seeds, ...] = ()
    if fewest >= MIN_SEEDS:
        known = tuple(Seeds(float(x.var(ddof=1)) / len(x), 0.0, len(x)) for x in (a, b))
    sources = Sources(0.0, float("inf"), known)
    return _difference(float(a.mean()) - centre, centre, sources, fewest, 0, bool(known), True)


def _difference(
    mean: float, base: float, sources: Sources, count: int, problems: int, claimed: bool, scatters: bool
) -> Difference:
    variance, freedom = sources.spread
    relative = mean / base if base > 0 else None
    if variance <= _ROUNDING:
        return Difference(Interval(mean, _NONE, _NONE, count, problems), relative, None, sources, False)
    error = variance**0.5
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    interval = Interval(mean, max(mean - half, -1.0), min(mean + half, 1.0), count, problems)
    p = float(2 * stdtr(freedom, -abs(mean) / error)) if claimed else None
    return Difference(interval, relative, p, sources, scatters)
