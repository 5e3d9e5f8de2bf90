"""Where the noise of a score comes from: training seeds, problems, and what is left.

Seeds and problems are crossed: every seed of every arm answers the same problems. The variance of an arm's mean, or
of the difference of two arms, is the sum of what other problems would do and what other seeds would do; the noise of
one seed on one problem (sampling among it) is in the first already and is taken out of the second, so that it counts
once. A bootstrap that draws both counts it up to three times (Owen and Eckles 2012, arXiv 1106.2125).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.errors import HarnessError

MIN_SEEDS = 3
"""Below it seeds show nothing of their scatter: numbers speak of these runs only, not of the method."""
LEVEL = 0.95
"""Of the intervals."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which problem belongs to which benchmark; benchmarks count equally, whatever their size."""

    labels: NDArray[np.int64]
    """(problems,) numbers of benchmarks, 0 and up."""
    sizes: NDArray[np.int64]
    """(benchmarks,) problems of each, at least 2."""

    @property
    def weights(self) -> Floats:
        """(problems,) what each problem counts in the mean; they sum to one."""
        return 1.0 / (len(self.sizes) * self.sizes[self.labels])

    def sums(self, values: Floats) -> Floats:
        """(benchmarks,) sums of (problems,) values."""
        return np.bincount(self.labels, weights=values, minlength=len(self.sizes)).astype(np.float64)

    def means(self, values: Floats) -> Floats:
        """(..., benchmarks) means of (..., problems) values."""
        parts = [values[..., self.labels == i].mean(axis=-1) for i in range(len(self.sizes))]
        return np.stack(parts, axis=-1)

    def variance(self, by_problem: Floats) -> Floats:
        """(benchmarks,) variance of the overall mean that each benchmark's problems contribute."""
        centred = by_problem - self.means(by_problem)[self.labels]
        spread = self.sums(centred**2) / (self.sizes - 1)
        return spread / self.sizes / len(self.sizes) ** 2


@dataclass(frozen=True, slots=True)
class Seeds:
    """Variance of one arm's mean, as its seeds show it. Units: score squared."""

    between: float
    """Variance of the seeds' means divided by their number; holds the residual too."""
    residual: float
    """The part of `between` that is noise of single problems: it is among the problems' variance already."""
    count: int

    @property
    def net(self) -> float:
        """What other seeds would add."""
        return max(self.between - self.residual, 0.0)


@dataclass(frozen=True, slots=True)
class Sources:
    """The variance of an estimate by source, for `satterthwaite` and `power.detectable`."""

    problems: float
    """What other problems, and other samples, would change."""
    problem_freedom: float
    """Degrees of freedom of `problems`; infinite where problems are not told apart."""
    seeds: tuple[Seeds, ...]
    """One an arm with three seeds or more; empty for an estimate that speaks of these runs only."""

    @property
    def spread(self) -> tuple[float, float]:
        """(variance, degrees of freedom) of the estimate."""
        seeds = [(one.between, one.residual, one.count) for one in self.seeds]
        variance, freedom = satterthwaite(self.problems, self.problem_freedom, seeds)
        return float(variance), float(freedom)


def satterthwaite(
    problems: ArrayLike, problem_freedom: float, seeds: Sequence[tuple[ArrayLike, float, int]]
) -> tuple[Floats, Floats]:
    """(variance, degrees of freedom): V = V_problems + sum over arms of max(MS_seeds - MS_residual, 0) / (S P).

    The degrees of freedom are Satterthwaite's, V^2 / sum of (mean square)^2 / its own, at least those of the source
    that has fewest. An arm whose seeds differ less than the residual alone would make them adds neither.

    Args:
        problems: variance of the estimate over problems, a number or any shape.
        seeds: (between, residual, count) of each arm as in `Seeds`; `between` of that shape.

    Returns:
        Two arrays of the shape of `problems`.
    """
    variance = np.asarray(problems, dtype=np.float64)
    squares = variance**2 / problem_freedom
    fewest = problem_freedom
    for between, residual, count in seeds:
        above = np.maximum(np.asarray(between, dtype=np.float64) - residual, 0.0)
        variance = variance + above
        squares = squares + np.where(above > 0, np.square(between), 0.0) / (count - 1)
        fewest = min(fewest, count - 1)
    freedom = np.divide(variance**2, squares, out=np.full(np.shape(variance), np.inf), where=squares > 0)
    return variance, np.maximum(freedom, fewest)


def problem_variance(by_problem: Floats, layout: Layout) -> tuple[float, float]:
    """(variance of the mean over problems, Satterthwaite's degrees of freedom over the benchmarks)."""
    parts = layout.variance(by_problem)
    total, squares = float(parts.sum()), float((parts**2 / (layout.sizes - 1)).sum())
    return total, total**2 / squares if squares > 0 else float((layout.sizes - 1).min())


def unseen(layout: Layout, weight: float) -> float:
    """Variance of the mean by one further problem of each benchmark that differs from it by a half, so weighted."""
    return weight / 4 * float((1 / layout.sizes**2).sum()) / len(layout.sizes) ** 2


def by_seed(scores: Floats, layout: Layout) -> Floats:
    """(seeds,) each seed's mean, benchmarks counted equally."""
    return layout.means(scores).mean(axis=-1)


def seeds(scores: Floats, layout: Layout) -> Seeds | None:
    """What the seeds of one arm show; None below three.

    Args:
        scores: (seeds, problems).
    """
    count = len(scores)
    if count < MIN_SEEDS:
        return None
    between = float(by_seed(scores, layout).var(ddof=1)) / count
    rest = scores - layout.means(scores)[:, layout.labels]
    rest = rest - rest.mean(axis=0)
    square = layout.sums((rest**2).sum(axis=0)) / ((count - 1) * (layout.sizes - 1))
    residual = float((square / layout.sizes).sum()) / count / len(layout.sizes) ** 2
    return Seeds(between, residual, count)


def arrange(scores: Sequence[ArrayLike], strata: ArrayLike | None = None) -> tuple[list[Floats], Layout]:
    """Checks the scores of arms on the same problems.

    Args:
        scores: one array (seeds, problems) an arm, the same problems in the same order; seeds may differ in number.
        strata: (problems,) a benchmark's number for every problem; None is one benchmark.

    Raises:
        HarnessError: different problems, fewer than two problems in a benchmark, or a score that is no rate.
    """
    arms = [np.asarray(x, dtype=np.float64) for x in scores]
    for x in arms:
        if x.ndim != 2 or 0 in x.shape:
            raise HarnessError(f"scores of shape {x.shape}: expected (seeds, problems), each at least 1")
        if x.shape[1] != arms[0].shape[1]:
            raise HarnessError(
                f"arms with {arms[0].shape[1]} and {x.shape[1]} problems: compare on the problems they share"
            )
        rates(x)
    problems = arms[0].shape[1]
    labels = np.zeros(problems, dtype=np.int64) if strata is None else np.asarray(strata)
    if labels.shape != (problems,):
        raise HarnessError(f"strata of shape {labels.shape} for {problems} problems: give one benchmark a problem")
    _, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if sizes.min() < 2:
        raise HarnessError("a benchmark of one problem has no interval over problems: use at least 2")
    return arms, Layout(numbers.astype(np.int64), sizes.astype(np.int64))


def rates(values: Floats) -> None:
    """Refuses what is no success rate. Raises: HarnessError."""
    if not np.isfinite(values).all():
        raise HarnessError("a score is NaN or infinite: leave out problems that a run did not answer")
    if (values < -1e-9).any() or (values > 1 + 1e-9).any():
        odd = float(values[(values < -1e-9) | (values > 1 + 1e-9)][0])
        raise HarnessError(f"a score of {odd:g}: pass@k lies between 0 and 1")
