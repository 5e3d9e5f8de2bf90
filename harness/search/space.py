"""What a study searches: typed axes, and the overrides that a point of them stands for."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness import quantile
from harness.errors import HarnessError, check, nearest

RANK, LEVEL, SIZE = "rank", "K", "recipe.group_size"
Value = int | float | str | bool
Cell = dict[str, Value]
"""A value an axis: one point of the space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis with its distribution."""

    key: str
    """`rank`, `K`, or a setting such as recipe.clip_high."""
    kind: str
    """`int`, `float` or `categorical`."""
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    """Distance of two values; None is continuous, or 1 for `int`."""
    log: bool = False
    """Search on a logarithmic scale."""
    choices: tuple[Value, ...] = ()

    def values(self) -> tuple[Value, ...] | None:
        """All values in order, None where they are a continuum."""
        if self.kind == "categorical":
            return self.choices
        if self.kind == "int":
            return tuple(range(int(self.low), int(self.high) + 1, int(self.step or 1)))
        if self.step is None:
            return None
        count = int(quantile.exact((self.high - self.low) / self.step + 1e-9, "step"))
        return tuple(round(self.low + i * self.step, 12) for i in range(count + 1))

    def snapped(self, value: Value) -> Value:
        """The value of the axis nearest to this one: what a sampler draws differs in the last digit.

        On a continuum six digits are kept: nobody can tell runs apart that differ in less.
        """
        values = self.values()
        if self.kind == "categorical":
            return value
        if values is None:
            return min(max(float(f"{value:.6g}"), self.low), self.high)
        return min(values, key=lambda known: abs(float(known) - float(value)))

    def share(self, value: Value) -> float:
        """Where a value lies between the ends of the axis, in [0, 1]; choices side by side."""
        if self.kind == "categorical":
            return self.choices.index(value) / max(1, len(self.choices) - 1)
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, float(value)))
        return (at - low) / (high - low)


@dataclass(frozen=True, slots=True)
class Space:
    """All axes of a study."""

    axes: tuple[Axis, ...]
    group_size: int
    """G of the study's recipe; what `rank` refers to."""
    exact: bool = True
    """Whether only the rank of a K matters; with linear interpolation K itself does."""

    def cells(self) -> list[Cell] | None:
        """Every point that is an experiment of its own, None where an axis is continuous.

        Where the group size is an axis K stands for its rank: a continuum of K has as many points as ranks.
        """
        found = _cells(self)
        return None if found is None else [dict(cell) for cell in found]

    def expanded(self) -> list[Cell] | None:
        """`cells`, worked out anew."""
        ranked = self.exact and LEVEL in self.keys
        lists = [(None,) if ranked and axis.key == LEVEL else axis.values() for axis in self.axes]
        if any(values is None for values in lists):
            return None
        found: list[Cell] = []
        for point in itertools.product(*(values or () for values in lists)):
            cell = {key: value for key, value in zip(self.keys, point, strict=True) if value is not None}
            found += self._levels(cell) if ranked else [cell]
        return found

    def _levels(self, rest: Cell) -> list[Cell]:
        """The point with one K of every rank that the axis of K reaches."""
        axis = next(axis for axis in self.axes if axis.key == LEVEL)
        G = self.size_of(rest)
        values = axis.values() or tuple(
            min(max(float(quantile.short_level(r, G)), axis.low), axis.high) for r in range(1, G + 1)
        )
        cells = [self.canonical({key: value if key == LEVEL else rest[key] for key in self.keys}) for value in values]
        return [cell for i, cell in enumerate(cells) if cell not in cells[:i]]

    def size_of(self, cell: Mapping[str, Value]) -> int:
        """G at a point."""
        return int(cell.get(SIZE, self.group_size))

    def rank_of(self, cell: Mapping[str, Value]) -> tuple[int, int] | None:
        """(rank, G) of a point, None where the rank does not decide."""
        if RANK in cell:
            return int(cell[RANK]), self.group_size
        if LEVEL in cell and self.exact:
            return quantile.rank(f"{cell[LEVEL]:.6g}", self.size_of(cell)), self.size_of(cell)
        return None

    def canonical(self, cell: Cell) -> Cell:
        """The point that stands for all K of its rank; two draws that are one experiment become equal."""
        found = self.rank_of(cell)
        if found is None or LEVEL not in cell:
            return cell
        axis = next(axis for axis in self.axes if axis.key == LEVEL)
        short = float(quantile.short_level(*found))
        values = axis.values()
        if values is None:
            return {**cell, LEVEL: min(max(short, axis.low), axis.high)}
        alike = [v for v in values if quantile.rank(f"{v:.6g}", found[1]) == found[0]]
        return {**cell, LEVEL: min(alike, key=lambda v: abs(float(v) - short))}

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.key for axis in self.axes)

    def overrides(self, cell: Mapping[str, Value]) -> tuple[str, ...]:
        """The point in Hydra's syntax, the baseline included."""
        found = ["baseline=qae"]
        for key, value in cell.items():
            if key == RANK:
                found.append(f"baseline.K={quantile.short_level(int(value), self.group_size)}")
            elif key == LEVEL:
                found.append(f"baseline.K={value:.6g}")
            else:
                found.append(f"{key}={str(value).lower() if isinstance(value, bool) else value}")
        return tuple(found)

    def name(self, cell: Mapping[str, Value]) -> str:
        """For people: `rank 7 of 16, K in (0.375, 0.4375]`, and the other axes."""
        parts = []
        for key, value in cell.items():
            found = self.rank_of(cell) if key in (RANK, LEVEL) else None
            if found is not None:
                low, high = quantile.interval(*found)
                parts.append(f"rank {found[0]} of {found[1]}, K in ({float(low):g}, {float(high):g}]")
            else:
                parts.append(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")
        return ", ".join(parts)

    def paper(self, K: float) -> Cell | None:
        """The point of the paper's rule: this K, the other axes at the middle of their values."""
        cell: Cell = {}
        for axis in self.axes:
            values = axis.values()
            if axis.key in (RANK, LEVEL):
                value: Value = quantile.rank(K, self.group_size) if axis.key == RANK else K
                if not (value in values if values is not None else axis.low <= float(value) <= axis.high):
                    return None
            elif values is not None:
                value = values[len(values) // 2]
            else:
                value = (axis.low * axis.high) ** 0.5 if axis.log else (axis.low + axis.high) / 2
            cell[axis.key] = value
        return self.canonical(cell)


@functools.lru_cache(maxsize=16)
def _cells(space: Space) -> list[Cell] | None:
    return space.expanded()  # exact arithmetic over all points: once, not at every look


def spread(cells: list[Cell]) -> list[Cell]:
    """The same cells, ends and middle first: every prefix covers the range evenly."""
    if len(cells) < 3:
        return list(cells)
    order: list[int] = []
    count = 1
    while len(order) < len(cells):
        places = [round((2 * i + 1) / (2 * count) * (len(cells) - 1)) for i in range(count)]
        order += [i for i in dict.fromkeys(places) if i not in order]
        count *= 2
        if count > 4 * len(cells):
            order += [i for i in range(len(cells)) if i not in order]
    return [cells[i] for i in order]


def read(content: Any, group_size: int, interpolation: str, where: str) -> Space:
    """The axes of a study file's `space`.

    Raises: HarnessError naming the axis; K beside the exact quantile, where only its rank is an experiment.
    """
    if not isinstance(content, Mapping) or not content:
        raise HarnessError(f"{where}: space={content!r}: give at least one axis, such as {{rank: all}}")
    sizes = SIZE in content
    axes = []
    for key, asked in content.items():
        if key == RANK:
            if interpolation == "linear" or sizes:
                why = "with linear interpolation" if interpolation == "linear" else "where the group size is searched"
                raise HarnessError(f"{where}: space.rank: {why} search K: {{type: float, low: 0.1, high: 0.9}}")
            axes.append(_rank(asked, group_size, where))
            continue
        if key == LEVEL and interpolation == "exact" and not sizes:
            raise HarnessError(
                f"{where}: space.K: with exact interpolation only the rank ceil(K*G) matters: search rank instead of K,"
                " or set baseline.interpolation=linear"
            )
        if key in ("baseline.K", "seed", "baseline"):
            raise HarnessError(f"{where}: space.{key}: search rank (or K); seeds are the study's own")
        axes.append(_axis(str(key), asked, where))
    return Space(tuple(axes), group_size, interpolation == "exact")


def _rank(asked: Any, group_size: int, where: str) -> Axis:
    name = f"{where}: space.rank"
    if asked == "all":
        return Axis(key=RANK, kind="int", low=1, high=group_size)
    if isinstance(asked, Mapping) and set(asked) == {"K"}:
        found = sorted({quantile.rank(str(K), group_size) for K in asked["K"]})
        return Axis(key=RANK, kind="categorical", choices=tuple(found))
    if isinstance(asked, Mapping) and asked and set(asked) <= {"low", "high"}:
        low, high = int(asked.get("low", 1)), int(asked.get("high", group_size))
        check(1 <= low < high <= group_size, name, dict(asked), f"ranks run from 1 to {group_size}")
        return Axis(key=RANK, kind="int", low=low, high=high)
    raise HarnessError(f"{name}={asked!r}: use all, {{low: 3, high: 12}} or {{K: [0.2, 0.4, 0.6]}}")


_FIELDS = {"int": {"low", "high", "step", "log"}, "float": {"low", "high", "step", "log"}, "categorical": {"choices"}}


def _axis(key: str, asked: Any, where: str) -> Axis:
    name = f"{where}: space.{key}"
    if not isinstance(asked, Mapping) or asked.get("type") not in _FIELDS:
        raise HarnessError(f"{name}={asked!r}: give a type, one of {', '.join(_FIELDS)}, and its range")
    kind = str(asked["type"])
    for field in asked:
        if field != "type" and field not in _FIELDS[kind]:
            raise HarnessError(f"{name}.{field}: no such field of {kind}; {nearest(str(field), _FIELDS[kind])}")
    if kind == "categorical":
        choices = asked.get("choices")
        check(
            isinstance(choices, list) and len(choices) > 1, f"{name}.choices", choices, "a list of two or more values"
        )
        return Axis(key=key, kind=kind, choices=tuple(choices or ()))
    low, high, step = asked.get("low"), asked.get("high"), asked.get("step")
    for field, value in (("low", low), ("high", high)):
        check(isinstance(value, int | float) and not isinstance(value, bool), f"{name}.{field}", value, "a number")
    low, high, log = float(low or 0), float(high or 0), bool(asked.get("log", False))
    check(low < high, f"{name}.low", low, f"must be below high={high:g}")
    check(not log or (low > 0 and step is None), f"{name}.log", log, "needs low above 0 and no step")
    check(step is None or 0 < float(step) <= high - low, f"{name}.step", step, "lies between 0 and high - low")
    if kind == "int":
        check(low == int(low) and high == int(high), f"{name}.low", low, "whole numbers for type int")
    return Axis(key=key, kind=kind, low=low, high=high, step=None if step is None else float(step), log=log)


def grid_order(cells: list[Cell], first: Iterator[Cell | None] | list[Cell | None]) -> list[Cell]:
    """All cells: those of the paper's rule first, then evenly spread."""
    start = [cell for cell in first if cell is not None and cell in cells]
    unique = [cell for i, cell in enumerate(start) if cell not in start[:i]]
    return unique + [cell for cell in spread(cells) if cell not in unique]
