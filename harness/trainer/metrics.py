"""The documented scalar metrics, from rows alone: what is logged can be recomputed from the outcome files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from harness.quantile import rank

PASS_AT = (1, 16)
"""The k of the pass@k that are logged unless the run says otherwise; a k above the number of samples is left out."""


def train_metrics(rows: pa.Table, K: float, discarded: int = 0) -> dict[str, float]:
    """Metrics of one training step.

    Args:
        rows: of the schema `outcomes.TRAIN`, one step.
        K: quantile level that tells hard from easy groups; exact decimal (see `harness.quantile.rank`).
        discarded: groups that dynamic sampling dropped in this step.

    Returns: name to value; an entropy by sign is absent where no token has that sign.
    """
    advantage = _column(rows, "advantage")
    length = _column(rows, "length")
    metrics = {
        "advantage/zero_share": _mean(advantage == 0),
        "advantage/positive_share": _mean(advantage > 0),
        "advantage/negative_share": _mean(advantage < 0),
        "response/length_mean": _mean(length),
        "response/words_mean": _mean(_column(rows, "words")),
        "group/discarded": float(discarded),
    }
    metrics |= _entropies(_column(rows, "entropy"), advantage, length)
    return metrics | _group_metrics(rows, K)


def evaluation_metrics(rows: pa.Table, ks: Sequence[int] = PASS_AT) -> dict[str, float]:
    """Metrics of one evaluation: per benchmark, and pass@k as the mean over benchmarks.

    Args:
        rows: of the schema `outcomes.EVALUATION`, one step.
        ks: the k of the pass@k that are wanted.
    """
    benchmarks = np.array(rows.column("benchmark").to_pylist(), dtype=object)
    problems = np.array(rows.column("problem").to_pylist(), dtype=object)
    accuracy, length = _column(rows, "accuracy"), _column(rows, "length")
    metrics: dict[str, float] = {}
    means: dict[int, list[float]] = {k: [] for k in ks}
    names = sorted(set(benchmarks))
    for name in names:
        chosen = benchmarks == name
        metrics[f"eval/{name}/length_mean"] = _mean(length[chosen])
        _, places = np.unique(problems[chosen], return_inverse=True)
        samples = np.bincount(places)
        correct = np.bincount(places, weights=accuracy[chosen] > 0.5).astype(int)
        for k in ks:
            if k <= samples.min():
                value = float(np.mean([pass_at(k, int(n), int(c)) for n, c in zip(samples, correct, strict=True)]))
                metrics[f"eval/{name}/pass@{k}"] = value
                means[k].append(value)
    for k, values in means.items():
        if values and len(values) == len(names):
            metrics[f"eval/pass@{k}"] = float(np.mean(values))
    return metrics


def pass_at(k: int, samples: int, correct: int) -> float:
    """Unbiased estimate of the chance that one of k draws is right: 1 - C(n-c, k) / C(n, k), in exact integers.

    Source: Chen et al., arXiv 2107.03374, eq. 1.
    """
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def discarded_groups(metrics: Mapping[str, object]) -> int:
    """Groups that verl's dynamic sampling dropped in a step: all rewards equal, or left over from a refill.

    Args:
        metrics: as collected by verl in the step (verl/trainer/ppo/v1/replay_buffer.py).
    """
    names = ("training/filter_groups/evicted_samples", "training/filter_groups/discarded_surplus_samples")
    return sum(int(value) for value in map(metrics.get, names) if isinstance(value, int | float | np.number))


def _entropies(entropy: np.ndarray, advantage: np.ndarray, length: np.ndarray) -> dict[str, float]:
    parts = {
        "all": np.ones(len(advantage), dtype=bool),
        "positive": advantage > 0,
        "negative": advantage < 0,
        "zero": advantage == 0,
    }
    return {
        f"entropy/{name}": float(np.average(entropy[chosen], weights=length[chosen]))
        for name, chosen in parts.items()
        if length[chosen].sum() > 0
    }


def _group_metrics(rows: pa.Table, K: float) -> dict[str, float]:
    _, places = np.unique(np.array(rows.column("group").to_pylist(), dtype=object), return_inverse=True)
    reward, accuracy = _column(rows, "reward"), _column(rows, "accuracy")
    sizes = np.bincount(places)
    failures = np.bincount(places, weights=accuracy <= 0.5).astype(int)
    lowest, highest = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(lowest, places, reward)
    np.maximum.at(highest, places, reward)
    hard = failures >= np.array([rank(K, int(size)) for size in sizes])
    return {
        "group/hard_share": _mean(hard),
        "group/easy_share": _mean(~hard),
        "group/all_equal_share": _mean(lowest == highest),
        "group/success_rate": _mean(accuracy),
    }


def _column(rows: pa.Table, name: str) -> np.ndarray:
    return rows.column(name).to_numpy().astype(np.float64)


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else 0.0
