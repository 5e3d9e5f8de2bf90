"""Aggregates over runs and tasks as in rliable (Agarwal et al. 2021), in a few lines of numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.statistics.bootstrap import Interval, percentile
from harness.errors import HarnessError

Floats = NDArray[np.float64]
RESAMPLES = 2_000
"""rliable's own default."""


def interquartile_mean(scores: ArrayLike) -> float:
    """Mean of the middle half of all values; robust to a run that failed, less wasteful than the median.

    The same as `scipy.stats.trim_mean(scores, 0.25)` on the flattened (runs, tasks) array.
    """
    x = np.asarray(scores, dtype=np.float64)
    if x.size == 0:
        raise HarnessError("an interquartile mean of nothing: the selection of runs is empty")
    return float(_middle(x.reshape(1, -1))[0])


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> float:
    """How likely a run of x beats a run of y on the same task, ties counting half, averaged over tasks.

    Args:
        x: (runs, tasks); one dimension is one task.
        y: (runs of the other arm, the same tasks).
    """
    a, b = _pair(x, y)
    return float(_wins(a[None], b[None])[0])


def interquartile_mean_interval(scores: ArrayLike, rng: np.random.Generator, resamples: int = RESAMPLES) -> Interval:
    """The interquartile mean with a 95 % interval; runs are resampled within each task (stratified
    bootstrap).

    Args:
        scores: (runs, tasks).
    """
    x, _ = _pair(scores, scores)
    values = _middle(_drawn(x, rng, resamples).reshape(resamples, -1))
    return percentile(interquartile_mean(x), values, len(x), x.shape[1])


def improvement_interval(x: ArrayLike, y: ArrayLike, rng: np.random.Generator, resamples: int = RESAMPLES) -> Interval:
    """The probability of improvement with a 95 % interval; runs of both arms are resampled within each task."""
    a, b = _pair(x, y)
    values = _wins(_drawn(a, rng, resamples), _drawn(b, rng, resamples))
    return percentile(probability_of_improvement(a, b), values, min(len(a), len(b)), a.shape[1])


def _middle(x: Floats) -> Floats:
    """(draws, values) -> (draws,) mean of the middle half of each row."""
    ordered = np.sort(x, axis=1)
    cut = x.shape[1] // 4
    return ordered[:, cut : x.shape[1] - cut].mean(axis=1)


def _wins(a: Floats, b: Floats) -> Floats:
    """(draws, runs, tasks) twice -> (draws,) share of pairs of runs that a wins."""
    left, right = a[:, :, None], b[:, None]
    return (left > right).mean(axis=(1, 2, 3)) + 0.5 * (left == right).mean(axis=(1, 2, 3))


def _drawn(x: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """(resamples, runs, tasks): each task's runs drawn anew."""
    rows = rng.integers(0, len(x), (resamples, *x.shape))
    return np.take_along_axis(np.broadcast_to(x, (resamples, *x.shape)), rows, axis=1)


def _pair(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    a, b = (np.asarray(v, dtype=np.float64) for v in (x, y))
    a, b = (v[:, None] if v.ndim == 1 else v for v in (a, b))
    if a.ndim != 2 or a.size == 0 or b.size == 0 or a.shape[1:] != b.shape[1:]:
        raise HarnessError(f"scores of shapes {a.shape} and {b.shape}: expected (runs, tasks) with the same tasks")
    return a, b
