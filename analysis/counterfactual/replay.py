"""What a quantile baseline would have made of a finished run's own groups: no training, only its outcome files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analysis.sources import parquet
from harness import quantile
from harness.errors import HarnessError
from harness.store import outcome_files

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
_COLUMNS = ["step", "group", "reward", "accuracy"]

LIMITS = (
    "The policy would have gone elsewhere: only the first step is what such a run would have seen; the further on, the"
    " less these numbers say about it. Above all they cannot say which K ends at the higher accuracy.",
    "Dynamic sampling kept or dropped groups by their rewards before they reached these files; dropped ones are not"
    " counted here.",
    "Clipping, the KL term and the optimiser come after the advantage: a zero share says how many responses give a"
    " gradient, not how far it moves the policy.",
)
"""What a replay cannot tell; printed with every one."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The training groups of one run. Responses are sorted by group and, within it, by reward."""

    step: Counts
    """(groups,) training step, ascending"""
    start: Counts
    """(groups,) index of the first response"""
    size: Counts
    """(groups,)"""
    successes: Counts
    """(groups,) responses with accuracy above 0.5"""
    reward: Floats
    """(responses,)"""

    @property
    def steps(self) -> Counts:
        """Distinct training steps."""
        return np.unique(self.step)

    @property
    def group_size(self) -> int:
        """The most frequent group size."""
        return int(np.bincount(self.size).argmax())

    @property
    def levels(self) -> Floats:
        """Distinct reward values."""
        return np.unique(self.reward)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """One rank over training. Shares are in [0, 1] and (steps,), one value a training step."""

    K: str
    """A quantile level of this rank, as a person writes it."""
    rank: int
    """Of a group of the most frequent size."""
    interval: str
    """Every K of this rank, `(0.375, 0.4375]`."""
    steps: Counts
    zero: Floats
    positive: Floats
    negative: Floats
    """Shares of responses by the sign of their advantage; they sum to one."""
    hard: Floats
    """Share of groups with at least `rank` failures; the others are easy."""
    silent: NDArray[np.bool_]
    """(steps,) whether every advantage of the step is zero"""
    rates: Floats
    """(bins,) success rates c / G that occur"""
    share: Floats
    """(bins,) share of groups at that rate"""
    up: Floats
    """(bins,) mean weight of the responses above the baseline, sum of (R - b)+ / (G std), population std"""
    down: Floats
    """(bins,) the same below it; with two-valued rewards these are Prop. 4.1's sqrt(p/(1-p)) and sqrt((1-p)/p)"""


def read(folder: Path) -> Groups:
    """The groups in `folder`/outcomes/train.

    Raises: HarnessError where there is none, or a file is damaged or lacks a column: a replay of half a run misleads.
    """
    paths = list(outcome_files.by_step(folder, "train").values())
    if not paths:
        raise HarnessError(f"{folder} has no outcomes/train: only runs that trained with this harness can be replayed")
    tables = []
    for path in paths:
        try:
            tables.append(parquet.read(path, _COLUMNS))
        except parquet.Damaged as error:
            raise HarnessError(
                f"{path} is damaged, it {error}: remove it and resume the run, or replay another"
            ) from None
    return group(pa.concat_tables(tables, promote_options="permissive"))


def group(table: pa.Table) -> Groups:
    """Sorts rows into groups. Args: table: columns step, group, reward, accuracy; one row a response."""
    names = pc.cast(table["group"], pa.string()).combine_chunks().dictionary_encode().indices.to_numpy()
    step = table["step"].to_numpy().astype(np.int64)
    reward = table["reward"].to_numpy().astype(np.float64)
    if not np.isfinite(reward).all():
        raise HarnessError("a reward is NaN or infinite: no quantile of its group exists; mend the reward function")
    order = np.lexsort((reward, names, step))
    step, names, reward = step[order], names[order].astype(np.int64), reward[order]
    right = (table["accuracy"].to_numpy().astype(np.float64) > 0.5)[order]
    new = np.ones(len(step), dtype=bool)
    new[1:] = (step[1:] != step[:-1]) | (names[1:] != names[:-1])
    start = np.flatnonzero(new)
    size = np.diff(np.append(start, len(step)))
    successes = np.add.reduceat(right.astype(np.int64), start) if len(start) else start
    return Groups(step[start], start, size, successes, reward)


def ranks(groups: Groups, levels: Sequence[str] = ()) -> list[tuple[str, int]]:
    """(K as text, rank) for the levels asked for, one a rank; for none asked, every rank of the group size.

    Raises: HarnessError where a level is not strictly between 0 and 1.
    """
    G = groups.group_size
    if not levels:
        return [(quantile.short_level(r, G), r) for r in range(1, G + 1)]
    found: dict[int, str] = {}
    for text in levels:
        found.setdefault(quantile.rank(text, G), text.strip())
    return [(text, r) for r, text in found.items()]


def replay(groups: Groups, K: str) -> Replay:
    """The advantages that the exact K-quantile would have given (arXiv 2509.22611, definition of b_K).

    Groups of unequal size each get their own rank ceil(K * size), as the trainer does.
    """
    sizes = np.unique(groups.size)
    of_size = {int(size): quantile.rank(K, int(size)) for size in sizes}
    rank = np.array([of_size[int(size)] for size in groups.size])
    base = np.repeat(groups.reward[groups.start + rank - 1], groups.size)
    above, below = groups.reward > base, groups.reward < base
    steps, place = np.unique(groups.step, return_inverse=True)
    of_row = np.repeat(place, groups.size)
    count = np.bincount(of_row).astype(np.float64)
    positive = np.bincount(of_row, weights=above) / count
    negative = np.bincount(of_row, weights=below) / count
    hard = groups.size - groups.successes >= rank
    rates, share, up, down = _profile(groups, base)
    G = groups.group_size
    low, high = quantile.interval(quantile.rank(K, G), G)
    return Replay(
        K, quantile.rank(K, G), f"({float(low):.6g}, {float(high):.6g}]", steps, 1 - positive - negative, positive,
        negative, np.bincount(place, weights=hard) / np.bincount(place), (positive + negative) == 0, rates, share, up,
        down,
    )  # fmt: skip


def mean_profile(groups: Groups) -> tuple[Floats, Floats, Floats, Floats]:
    """(rates, share, up, down) of the mean baseline on the same groups, as in `Replay`."""
    mean = np.add.reduceat(groups.reward, groups.start) / groups.size
    return _profile(groups, np.repeat(mean, groups.size))


def _profile(groups: Groups, base: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    mean = np.add.reduceat(groups.reward, groups.start) / groups.size
    squares = np.add.reduceat((groups.reward - np.repeat(mean, groups.size)) ** 2, groups.start) / groups.size
    spread = np.sqrt(squares)
    lift = groups.reward - base
    sides = []
    for part in (np.maximum(lift, 0.0), np.maximum(-lift, 0.0)):
        total = np.add.reduceat(part, groups.start) / groups.size
        sides.append(np.divide(total, spread, out=np.zeros_like(total), where=spread > 1e-12))
    rates, place = np.unique(groups.successes / groups.size, return_inverse=True)
    n = np.bincount(place)
    up, down = (np.bincount(place, weights=side) / n for side in sides)
    return rates, n / n.sum(), up, down
