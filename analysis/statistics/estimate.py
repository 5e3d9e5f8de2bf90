"""One arm's score with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from analysis.statistics.components import (
    LEVEL,
    MIN_SEEDS,
    Floats,
    Layout,
    Sources,
    arrange,
    by_seed,
    problem_variance,
    rates,
    seeds,
    unseen,
)

UNSEEN = 1 / 8
"""A further problem of each benchmark, solved half of the time, counts for so much of a problem: it keeps intervals
honest near 0 and 1, where the few problems that decide may not be among those asked, and where nothing scatters. Set by
simulation, see docs/statistics.md."""
_NONE = float("nan")


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval, in the unit of the scores."""

    estimate: float
    low: float
    """NaN, as is `high`, where nothing can be said."""
    high: float
    seeds: int
    """The fewest seeds that went into it."""
    problems: int
    """0 where problems are not told apart."""

    @property
    def method_level(self) -> bool:
        """Whether it speaks of the method, other seeds included, and not of these runs alone."""
        return self.seeds >= MIN_SEEDS


def score(scores: ArrayLike, strata: ArrayLike | None = None) -> Interval:
    """The mean success rate over problems and training seeds; below three seeds over problems given these runs.

    Wilson's score interval with the effective number of trials m (1 - m) / V and Student's t: V as in
    `components.satterthwaite`, m and V with the unseen problem. It stays in [0, 1] and has width at 0 and at 1.

    Args:
        scores: (seeds, problems) pass@k.
        strata: (problems,) a benchmark's number; benchmarks count equally.

    Raises:
        HarnessError: see `components.arrange`.
    """
    (x,), layout = arrange([scores], strata)
    mean = float(by_seed(x, layout).mean())
    by_problem = x.mean(axis=0)
    problems, freedom = problem_variance(by_problem, layout)
    found = seeds(x, layout)
    sources = Sources(problems + unseen(layout, UNSEEN), freedom, () if found is None else (found,))
    low, high = _wilson(_centre(by_problem, layout), *sources.spread)
    return Interval(mean, min(low, mean), max(high, mean), len(x), x.shape[1])


def over_seeds(values: ArrayLike, *, rate: bool = True) -> Interval:
    """The mean of one value a seed, where problems are not known; without bounds below three seeds.

    Seeds that agree exactly show no scatter at all, which is no certainty: then too there are no bounds.

    Args:
        values: (seeds,).
        rate: success rates, whose interval is Wilson's and stays in [0, 1]; else plain Student's.
    """
    x = np.asarray(values, dtype=np.float64)
    mean, spread = float(x.mean()), float(x.var(ddof=1)) / len(x) if len(x) >= MIN_SEEDS else 0.0
    if spread <= 1e-24:  # rounding noise around equal values is no scatter
        return Interval(mean, _NONE, _NONE, len(x), 0)
    if rate:
        rates(x)
        low, high = _wilson(mean, spread, len(x) - 1)
    else:
        half = float(stdtrit(len(x) - 1, (1 + LEVEL) / 2)) * spread**0.5
        low, high = mean - half, mean + half
    return Interval(mean, low, high, len(x), 0)


def _centre(by_problem: Floats, layout: Layout) -> float:
    """The mean with the unseen problem in every benchmark; never 0 or 1."""
    sums = layout.means(by_problem) * layout.sizes
    return float(((sums + UNSEEN / 2) / (layout.sizes + UNSEEN)).mean())


def _wilson(mean: float, variance: float, freedom: float) -> tuple[float, float]:
    """Wilson's score interval for a rate whose estimate has this variance; 0 < mean < 1."""
    inverse = float(stdtrit(freedom, (1 + LEVEL) / 2)) ** 2 * variance / (mean * (1 - mean))
    half = (inverse * mean * (1 - mean) + inverse**2 / 4) ** 0.5
    return (mean + inverse / 2 - half) / (1 + inverse), (mean + inverse / 2 + half) / (1 + inverse)
