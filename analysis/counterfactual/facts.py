"""What the rules of thumb look at in a run, read from its outcome files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from analysis.counterfactual import advice, replay
from analysis.sources import parquet
from harness.store import outcome_files

_ENTROPY = ["entropy", "length"]


def read(folder: Path, baseline: str) -> advice.Facts:
    """What the rules look at, from the training outcomes in a run's folder.

    Raises: HarnessError where there are none.
    """
    groups = replay.read(folder)
    steps, entropy = entropies(folder)
    late = entropy[len(entropy) - max(1, len(entropy) // 4) :] if len(entropy) else entropy
    early = entropy[: max(1, len(entropy) // 10)]
    return advice.Facts(
        baseline=baseline,
        group_size=groups.group_size, smallest_group=int(groups.size.min()), levels=len(groups.levels),
        entropy=float(late.mean()) if len(late) else None, early_entropy=float(early.mean()) if len(early) else None,
        success=float(groups.successes.sum() / groups.size.sum()),
        hard_at=float(replay.replay(groups, "0.4").hard.mean()),
    )  # fmt: skip


def entropies(folder: Path) -> tuple[replay.Counts, replay.Floats]:
    """(steps, nats a token) from the training outcomes: the token mean of every step that recorded it."""
    steps, values = [], []
    for step, path in outcome_files.by_step(folder, "train").items():
        try:
            table = parquet.read(path, _ENTROPY)
        except parquet.Damaged:
            continue  # it recorded none, or `replay.read` has named it already
        entropy, length = (table[name].to_numpy().astype(np.float64) for name in _ENTROPY)
        known = np.isfinite(entropy) & (length > 0)
        if known.any():
            steps.append(step)
            values.append(float(np.average(entropy[known], weights=length[known])))
    return np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64)
