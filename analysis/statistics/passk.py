"""Unbiased pass@k from counts of right samples; pass@1 is avg@n."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.errors import HarnessError


def pass_at_k(n: ArrayLike, correct: ArrayLike, k: int) -> NDArray[np.float64]:
    """The probability that at least one of k samples is right, drawn without replacement from n with
    `correct` right.

    1 - C(n - c, k) / C(n, k), as a product of k factors: exact for any n and k, where binomials overflow. The
    mean over problems estimates pass@k without bias (Chen et al. 2021, eq. 1); verl's best@k does not.

    Args:
        n: samples a problem; a number or an array that broadcasts with `correct`.
        correct: right samples a problem, any shape.
        k: at most the smallest n.

    Returns:
        Values in [0, 1], the broadcast shape of n and correct.

    Raises:
        HarnessError: k < 1 or k > n, or a count outside 0..n.
    """
    n, c = np.broadcast_arrays(np.asarray(n, dtype=np.int64), np.asarray(correct, dtype=np.int64))
    if k < 1:
        raise HarnessError(f"pass@{k}: k is at least 1")
    if n.size == 0:
        return np.zeros(n.shape)
    fewest = int(n.min())
    if k > fewest:
        raise HarnessError(
            f"pass@{k} from {fewest} samples a problem: k is at most n; evaluate with evaluation.samples={k}"
            f" or more, or ask for pass@{fewest}"
        )
    if (c < 0).any() or (c > n).any():
        raise HarnessError(
            f"pass@{k}: counts of right samples between {c.min()} and {c.max()}, expected 0 to n={fewest}"
        )
    if fewest == n.max():  # one n for all: n + 1 values are all there are
        return _one_minus_misses(np.full(fewest + 1, fewest), np.arange(fewest + 1), k)[c]
    return _one_minus_misses(n, c, k)


def _one_minus_misses(n: NDArray[np.int64], c: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    misses = np.ones(n.shape)
    for i in range(k):
        misses *= np.maximum(n - c - i, 0) / (n - i)
    return 1.0 - misses
