"""Unbiased pass@k, avg@n and majority vote from per-sample outcomes."""

from __future__ import annotations

import numpy as np
import pandas as pd
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


def mean_at_n(n: ArrayLike, correct: ArrayLike) -> NDArray[np.float64]:
    """avg@n of every problem, c / n: the same number as pass@1."""
    return pass_at_k(n, correct, 1)


def majority_vote(outcomes: pd.DataFrame, by: tuple[str, ...] = ("problem",)) -> pd.Series:
    """maj@n: whether the most frequent answer of a problem is right, over all of its samples.

    Answers tied for the most votes count by the share of them that are right, so that the order of the
    samples plays no part. A sample without an answer does not vote; a problem without any vote is wrong.

    Args:
        outcomes: one row a sample; columns `answer` (str or null), `accuracy` (0 or 1) and those of `by`.

    Returns:
        float64 in [0, 1] indexed by `by`.
    """
    keys = list(by)
    votes = (
        outcomes.dropna(subset=["answer"])
        .groupby([*keys, "answer"], observed=True)["accuracy"]
        .agg(["size", "mean"])
        .reset_index()
    )
    most = votes.groupby(keys, observed=True)["size"].transform("max")
    won = votes[votes["size"] == most].groupby(keys, observed=True)["mean"].mean()
    problems = outcomes.groupby(keys, observed=True).size().index
    return won.reindex(problems, fill_value=0.0).astype(np.float64).rename("majority")
