"""Logged rows on the training step: duplicates merged, fragments of a resumed run stitched."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

NO_STEP = np.iinfo(np.int64).min
"""Marks a row whose training step is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """n rows in the order in which they were logged."""

    steps: np.ndarray
    """(n,) int64, training steps; may repeat and go back."""
    columns: Mapping[str, np.ndarray]
    """Metric -> (n,) float64; NaN where the row does not have it, or where NaN itself was logged."""
    nans: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Metric -> numbers of the rows in which NaN itself was logged, int64, ascending; without entry: none."""

    def __len__(self) -> int:
        return len(self.steps)

    def logged(self, name: str) -> np.ndarray:
        """(n,) bool: the rows that have the metric, real NaN included."""
        there = ~np.isnan(self.columns[name])
        if name in self.nans:
            there[self.nans[name]] = True
        return there

    def take(self, numbers: np.ndarray) -> Rows:
        """The rows with these numbers, in this order."""
        columns = {name: values[numbers] for name, values in self.columns.items()}
        nans = {}
        for name, marked in self.nans.items():
            found = np.flatnonzero(np.isin(numbers, marked))
            if len(found):
                nans[name] = found
        return Rows(self.steps[numbers], columns, nans)


class Gather:
    """Collects logged rows; `rows` turns them into columns at once, many times faster than cell by cell."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._values: list[float] = []
        self._counts: list[int] = []

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, row: Mapping[str, float]) -> None:
        """One row: metric -> value."""
        self._names += row
        self._values += row.values()
        self._counts.append(len(row))

    def rows(self, steps: Sequence[int] | None = None) -> Rows:
        """All rows, on these training steps (0 where they are still to be found out)."""
        count = len(self._counts)
        codes = {name: code for code, name in enumerate(dict.fromkeys(self._names))}
        index = np.fromiter(map(codes.__getitem__, self._names), dtype=np.int64, count=len(self._names))
        numbers = np.repeat(np.arange(count), self._counts)
        columns, nans = table(count, list(codes), numbers, index, _floats(self._values))
        placed = np.zeros(count, dtype=np.int64) if steps is None else np.array(steps, dtype=np.int64)
        return Rows(placed, columns, nans)


def is_step(number: float) -> bool:
    """Whether a number can be a training step: whole, and exact as the float64 that logs carry."""
    return math.isfinite(number) and abs(number) <= 2**53 and number == int(number)


def _floats(values: Sequence[float]) -> np.ndarray:
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond the largest float
        largest = sys.float_info.max
        return np.array([v if -largest <= v <= largest else math.inf * (1 if v > 0 else -1) for v in values])


def table(
    count: int, names: Sequence[str], numbers: np.ndarray, index: np.ndarray, values: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Columns and NaN marks of `count` rows from their cells; of two cells for one place the later one stays.

    Args:
        names: of the metrics.
        numbers: (cells,) int64, the row of each cell.
        index: (cells,) int64, its metric's place in `names`.
        values: (cells,) float64.
    """
    cells = np.full((len(names), count), np.nan)
    cells[index, numbers] = values
    nans = {}
    missing = np.isnan(values)
    for code in np.unique(index[missing]).tolist():
        logged = np.unique(numbers[missing & (index == code)])
        real = logged[np.isnan(cells[code, logged])]
        if len(real):
            nans[names[code]] = real
    return dict(zip(names, cells, strict=True)), nans


def joined(
    columns: Mapping[str, np.ndarray], nans: Mapping[str, np.ndarray], start: int, fresh: Rows
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Columns and NaN marks of `start` rows known before, followed by `fresh` ones."""
    if not start:
        return dict(fresh.columns), dict(fresh.nans)
    whole = concatenate([Rows(np.zeros(start, dtype=np.int64), columns, nans), fresh])
    return dict(whole.columns), dict(whole.nans)


def concatenate(parts: Sequence[Rows]) -> Rows:
    """All rows, one part after the other, over the union of the metrics."""
    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part.columns)
    columns = {}
    nans: dict[str, list[np.ndarray]] = {}
    starts = np.cumsum([0, *(len(part) for part in parts)])
    for name in names:
        columns[name] = np.concatenate(
            [part.columns[name] if name in part.columns else np.full(len(part), np.nan) for part in parts]
        )
    for part, start in zip(parts, starts, strict=False):
        for name, marked in part.nans.items():
            nans.setdefault(name, []).append(marked + start)
    steps = np.concatenate([part.steps for part in parts]) if parts else np.empty(0, dtype=np.int64)
    return Rows(steps, columns, {name: np.concatenate(marked) for name, marked in nans.items()})


def collapse(rows: Rows) -> tuple[Rows, int]:
    """One row a step, ascending, and how many repeated metric values were overruled.

    Rows of one step are merged metric by metric; where two of them have the same metric the later row wins.
    """
    steps = rows.steps
    if len(steps) < 2 or (np.diff(steps) > 0).all():
        return rows, 0
    unique, group = np.unique(steps, return_inverse=True)
    columns, nans, overruled = {}, {}, 0
    for name in rows.columns:
        logged = np.flatnonzero(rows.logged(name))
        values = rows.columns[name][logged]
        overruled += len(logged) - len(np.unique(group[logged]))
        column = np.full(len(unique), np.nan)
        column[group[logged]] = values  # of repeated indices numpy keeps the last
        columns[name] = column
        if name in rows.nans:
            last = np.full(len(unique), -1)
            last[group[logged]] = logged
            marked = np.flatnonzero(np.isin(last, rows.nans[name]))
            if len(marked):
                nans[name] = marked
    return Rows(unique, columns, nans), overruled


def restarts(rows: Rows) -> list[Rows]:
    """Cuts rows wherever the step goes back: there a run was started again from an earlier point."""
    cuts = np.flatnonzero(np.diff(rows.steps) < 0) + 1
    return [rows.take(numbers) for numbers in np.split(np.arange(len(rows)), cuts)]


def stitch(parts: Iterable[Rows], trained: str) -> tuple[Rows, list[str]]:
    """The rows of a run that was stopped and resumed, oldest part first; and notes on what was overruled.

    A later part wins from its first training step on: what an earlier part logged after the checkpoint that
    the later one started from was undone. Rows without the metric `trained` (an evaluation before the first
    step of a resumed run) do not count as training; they join the row that is there already.
    """
    notes: list[str] = []
    kept: list[Rows] = []
    for part in parts:
        if not len(part):
            continue
        training = part.steps[part.logged(trained)] if trained in part.columns else part.steps
        first = int(training.min()) if len(training) else None
        if kept and first is not None:
            undone = 0
            for number, earlier in enumerate(kept):
                stays = earlier.steps < first
                undone += int((~stays).sum())
                if not stays.all():
                    kept[number] = earlier.take(np.flatnonzero(stays))
            verb = "resumed" if any(len(earlier) for earlier in kept) else "started again"
            lost = "1 earlier row" if undone == 1 else f"{undone} earlier rows"
            were = "was" if undone == 1 else "were"
            rest = f"{lost} from there on {were} undone" if undone else "nothing was undone"
            notes.append(f"{verb} at step {first}: {rest}")
        kept.append(part)
    rows, overruled = collapse(concatenate(kept) if kept else Rows(np.empty(0, dtype=np.int64), {}))
    if overruled:
        notes.append(f"{overruled} values were logged again at the same step: the later ones stay")
    return rows, notes


def empty() -> pd.DataFrame:
    """The history of a run that logged nothing."""
    return pd.DataFrame({"step": np.empty(0, dtype=np.int64)})


def frame(rows: Rows) -> tuple[pd.DataFrame, dict[str, tuple[int, ...]]]:
    """The history frame of a `Run` and its `nan_steps`, from collapsed rows. Metrics without any value are
    left out."""
    data: dict[str, np.ndarray] = {"step": rows.steps}
    nan_steps = {}
    for name, values in rows.columns.items():
        if name == "step":  # what other logs call their step column is in `rows.steps`
            continue
        if name in rows.nans:
            nan_steps[name] = tuple(rows.steps[rows.nans[name]].tolist())
        elif np.isnan(values).all():
            continue
        data[name] = values
    return pd.DataFrame(data, copy=False), nan_steps
