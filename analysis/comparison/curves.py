"""Curves of one metric over an arm's seeds: aligned on the training step, with a band where there are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from analysis.statistics.components import MIN_SEEDS

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """One row a run over the union of their steps."""

    steps: NDArray[np.int64]
    """(steps,) ascending"""
    values: Floats
    """(runs, steps), NaN where a run has no value"""
    names: tuple[str, ...]
    """(runs,) what to call each run"""

    @property
    def has_band(self) -> bool:
        """Whether there is a step at which enough seeds have a value."""
        return bool((np.isfinite(self.values).sum(axis=0) >= MIN_SEEDS).any())

    def band(self, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
        """(mean, low, high) at every step, each (steps,): Student's t interval over seeds, pointwise.

        NaN where fewer than three seeds have a finite value.
        """
        finite = np.isfinite(self.values)
        n = finite.sum(axis=0)
        enough = n >= MIN_SEEDS
        filled = np.where(finite, self.values, 0.0)
        mean = np.full(len(self.steps), np.nan)
        mean[enough] = filled.sum(axis=0)[enough] / n[enough]
        squares = np.where(finite, (filled - mean) ** 2, 0.0).sum(axis=0)
        half = np.full(len(self.steps), np.nan)
        half[enough] = stdtrit(n[enough] - 1, (1 + level) / 2) * np.sqrt(squares[enough] / (n[enough] - 1) / n[enough])
        return mean, mean - half, mean + half

    def mean(self) -> Floats:
        """(steps,) mean over the runs that have a value at a step, however few."""
        finite = np.isfinite(self.values)
        n = finite.sum(axis=0)
        total = np.where(finite, self.values, 0.0).sum(axis=0)
        return np.divide(total, n, out=np.full(len(self.steps), np.nan), where=n > 0)

    def scaled(self, factor: float) -> Curves:
        """The same in another unit: 100 for percent."""
        return Curves(self.steps, self.values * factor, self.names)

    def late_means(self, share: float = 0.25) -> Floats:
        """(runs,) every run's mean over the last `share` of its own finite steps, NaN for a run without any."""
        late = []
        for row in self.values:
            finite = row[np.isfinite(row)]
            late.append(finite[-max(1, round(len(finite) * share)) :].mean() if len(finite) else np.nan)
        return np.array(late)


def align(series: Sequence[pd.Series], names: Sequence[str]) -> Curves:
    """Puts series indexed by unique steps on the union of their steps."""
    indexes = [s.index.to_numpy() for s in series]
    steps = np.unique(np.concatenate(indexes)) if indexes else np.array([], dtype=np.int64)
    values = np.full((len(series), len(steps)), np.nan)
    for row, index, s in zip(values, indexes, series, strict=True):
        row[np.searchsorted(steps, index)] = s.to_numpy(dtype=np.float64)
    return Curves(steps.astype(np.int64), values, tuple(names))
