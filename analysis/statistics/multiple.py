"""Several comparisons at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.errors import HarnessError

LEVEL = 0.05
"""Chance of any false claim in a family that is tolerated."""


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values in the order given; the chance of any false claim stays below the
    level.

    Args:
        p_values: (m,) the whole family, each in [0, 1].

    Returns:
        (m,) adjusted values, never below the raw ones and at most 1. Compare them with the level itself.
    """
    p = np.asarray(p_values, dtype=np.float64).ravel()
    if p.size and not ((p >= 0) & (p <= 1)).all():
        raise HarnessError(f"p-values {p.tolist()}: each lies between 0 and 1")
    order = np.argsort(p, kind="stable")
    factors = np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """As `holm`, for a family in which some comparisons have no test: they stay None and do not count."""
    found = iter(holm([p for p in p_values if p is not None]).tolist())
    return [None if p is None else next(found) for p in p_values]
