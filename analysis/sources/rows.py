"""Logged rows on the training step, by one rule for every source: `stitch`.

A source gives the rows in the order in which they were logged. Where a training metric's own step goes back, the run
was started again from an earlier checkpoint, and the later rows win from there on. Whatever else comes late (an
evaluation of an earlier step, a second row of the same step) joins the row that is there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis import aliases

STEP = "training/global_step"
"""verl's name of the training step."""
OWN_STEP = "_step"
"""W&B's own: it counts calls of `log`, so that a missing number means nothing."""
_NAMED = 3
"""Missing stretches that a note names; restarts that have a note of their own, where there are many."""
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
    parts = [part for part in parts if len(part)]
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


def collapse(rows: Rows, axis: str = STEP) -> tuple[Rows, int]:
    """One row a step, ascending, and how many metric values were overruled by another value.

    Rows of one step are merged metric by metric; where two of them have the same metric the later row wins. Clocks and
    the step itself are in every row: they are not counted.
    """
    steps = rows.steps
    if len(steps) < 2 or (np.diff(steps) > 0).all():
        return rows, 0
    unique, group = np.unique(steps, return_inverse=True)
    columns, nans, overruled = {}, {}, 0
    for name in rows.columns:
        logged = np.flatnonzero(rows.logged(name))
        values = rows.columns[name][logged]
        column = np.full(len(unique), np.nan)
        column[group[logged]] = values  # of repeated indices numpy keeps the last
        columns[name] = column
        if not _is_clock(name, axis):
            overruled += int((~_same(values, column[group[logged]])).sum())
        if name in rows.nans:
            last = np.full(len(unique), -1)
            last[group[logged]] = logged
            marked = np.flatnonzero(np.isin(last, rows.nans[name]))
            if len(marked):
                nans[name] = marked
    return Rows(unique, columns, nans), overruled


def stitch(logs: Sequence[Rows], axis: str = STEP) -> tuple[Rows, list[str]]:
    """One row a step of a run, and notes on what was undone, overruled or is missing: the same for every source.

    Args:
        logs: the run's rows in the order in which they were logged, those of resumed attempts one after the other. Logs
            that were kept side by side, as the charts of one run are, come as several; each is judged by itself.
        axis: the name of the metric that counts the steps.
    """
    notes: list[str] = []
    kept = []
    for log in logs:
        left, more = _without_undone(log, axis)
        kept.append(left)
        notes += [note for note in more if note not in notes]  # charts of one run say the same
    rows, overruled = collapse(concatenate(kept), axis)
    if overruled:
        values, stays = ("1 value was", "one") if overruled == 1 else (f"{overruled} values were", "ones")
        notes.append(f"{values} logged again at the same step: the later {stays} stay{'s' * (overruled == 1)}")
    if not len(rows):
        notes.append("nothing was logged")
    elif axis != OWN_STEP and (gaps := missing(rows.steps[_has_any(rows, training(rows, axis))])):
        notes.append(gaps)
    return rows, notes


def survivors(log: Rows, axis: str = STEP) -> np.ndarray:
    """(n,) bool: the rows of one log that no restart undid."""
    return _undo(log, axis)[0]


def training(log: Rows, axis: str = STEP) -> list[str]:
    """The metrics that tell what training did: by their names (`aliases.is_training`), and logged at least half as
    often as the most frequent one of them, so that an evaluation of any name is none of them."""
    counts = {name: int(log.logged(name).sum()) for name in log.columns if name != axis and aliases.is_training(name)}
    most = max(counts.values(), default=0)
    return [name for name, count in counts.items() if count and 2 * count >= most]


def restarts(log: Rows, axis: str = STEP) -> np.ndarray:
    """Numbers of the rows with which a run was started again from an earlier point: those in which a training metric
    has a lower step than it had before, since the last such row."""
    before = np.full(len(log), -1)  # the latest earlier row that a row goes back behind
    if (np.diff(log.steps) < 0).any():
        for name in training(log, axis):
            logged = np.flatnonzero(log.logged(name))
            back = np.flatnonzero(np.diff(log.steps[logged]) < 0)
            before[logged[back + 1]] = np.maximum(before[logged[back + 1]], logged[back])
    cuts: list[int] = []
    for row in np.flatnonzero(before >= 0).tolist():
        if not cuts or before[row] >= cuts[-1]:
            cuts.append(row)
    return np.array(cuts, dtype=np.int64)


def missing(steps: np.ndarray) -> str | None:
    """A note on steps that should be there, where at least half of the steps follow each other at one distance.

    Args:
        steps: (n,) int64, ascending, unique.
    """
    distances = np.diff(steps)
    sizes, counts = np.unique(distances, return_counts=True)
    if len(distances) < 2 or 2 * counts.max() < len(distances):
        return None
    usual = int(sizes[counts.argmax()])
    wide = np.flatnonzero(distances >= 2 * usual)
    if not len(wide):
        return None
    ends = [(int(steps[i]) + usual, int(steps[i + 1] - 1 - (steps[i + 1] - 1 - steps[i]) % usual)) for i in wide]
    named = [f"{first} to {last}" if last > first else str(first) for first, last in ends[:_NAMED]]
    more = f" and {len(ends) - _NAMED} more stretches" if len(ends) > _NAMED + 1 else " and another stretch"
    text = ", ".join(named) + (more if len(ends) > _NAMED else "")
    one = len(ends) == 1 and ends[0][0] == ends[0][1]
    every = "every step" if usual == 1 else f"every {usual} steps"
    return f"{'step' if one else 'steps'} {text} {'is' if one else 'are'} missing: elsewhere there is a row {every}"


def _without_undone(log: Rows, axis: str) -> tuple[Rows, list[str]]:
    alive, notes = _undo(log, axis)
    return (log if alive.all() else log.take(np.flatnonzero(alive))), notes


def _undo(log: Rows, axis: str) -> tuple[np.ndarray, list[str]]:
    """(n,) bool, the rows that no restart undid; and a note a restart.

    Steps that the new attempt logs again as they were (the harness repeats what a killed attempt may not have written)
    were not undone: an attempt undoes from the first step on of which a training metric is another one, or none.
    """
    alive = np.ones(len(log), dtype=bool)
    cuts = restarts(log, axis)
    if not len(cuts):
        return alive, []
    names = training(log, axis)
    trained = _has_any(log, names)
    # Attempts of less than three rows on average are none: two processes take turns.
    if len(cuts) >= 3 and 3 * len(cuts) > trained.sum():
        return alive, [f"the step goes back {len(cuts)} times in {len(log)} rows: several processes wrote this log"]
    notes = []
    lost = []
    for start, end in zip(cuts, [*cuts[1:], len(log)], strict=True):
        earlier = np.flatnonzero(alive[:start] & (log.steps[:start] >= log.steps[start]))
        before, again = (collapse(log.take(numbers), axis)[0] for numbers in (earlier, np.arange(start, end)))
        other = before.steps[~_repeated(before, again, names)]
        if not len(other):
            continue
        first = int(other[0])
        undone = earlier[log.steps[earlier] >= first]
        alive[undone] = False
        verb = "resumed" if alive[:start].any() else "started again"
        rest = "1 earlier row" if len(undone) == 1 else f"{len(undone)} earlier rows"
        notes.append(f"{verb} at step {first}: {rest} from there on {'was' if len(undone) == 1 else 'were'} undone")
        lost.append(len(undone))
    if len(notes) > 2 * _NAMED:
        rest = f"{len(notes) - _NAMED} more restarts: {sum(lost[_NAMED:])} earlier rows were undone"
        return alive, [*notes[:_NAMED], rest]
    return alive, notes


def _repeated(before: Rows, again: Rows, names: Sequence[str]) -> np.ndarray:
    """(n,) bool: the steps of `before` all of whose metrics of these names stand in `again` too; both collapsed."""
    places = np.minimum(np.searchsorted(again.steps, before.steps), len(again) - 1)
    same_step = again.steps[places] == before.steps
    repeated = np.ones(len(before), dtype=bool)
    for name in names:
        equal = same_step & again.logged(name)[places] & _same(before.columns[name], again.columns[name][places])
        repeated &= equal | ~before.logged(name)
    return repeated


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one == other) | (np.isnan(one) & np.isnan(other))


def _has_any(log: Rows, names: Iterable[str]) -> np.ndarray:
    """(n,) bool: the rows that have one of these metrics."""
    found = np.zeros(len(log), dtype=bool)
    for name in names:
        found |= log.logged(name)
    return found


def _is_clock(name: str, axis: str) -> bool:
    return name == axis or aliases.is_clock(name)


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
