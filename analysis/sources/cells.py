"""History records of a .wandb file into float columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.sources import wire
from analysis.sources.rows import Rows, joined, table

_AT_ONCE = 20_000
"""Cells that are turned into arrays together: few enough to be in the processor's cache still."""


class Cells:
    """Gathers HistoryRecords and turns many cells into arrays at once, which is what makes reading fast."""

    def __init__(self, start: int) -> None:
        self.start = start
        """Rows known from an earlier reading: the first record added has this number."""
        self._items: list[tuple[bytes, bytes]] = []
        self._counts: list[int] = []
        self._turned = 0
        """Rows whose items are in `_done` already."""
        self._done: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        """Row numbers, codes of the metrics, values."""
        self._codes: dict[bytes, int] = {}
        self._steps: dict[int, int] = {}
        self._nested: list[tuple[int, bytes, float]] = []

    @property
    def count(self) -> int:
        """Rows so far, those of the earlier reading included."""
        return self.start + len(self._counts)

    def add(self, body: bytes) -> None:
        """Takes one HistoryRecord. A malformed one raises one of `wire.MALFORMED` and adds nothing."""
        row = len(self._counts)
        found, step = wire.history(body)
        if found is None:
            found = self._add_slowly(row, body)
        elif step is not None:
            self._steps[row] = step
        self._items += found
        self._counts.append(len(found))
        if len(self._items) > _AT_ONCE:
            self._turn()

    def _add_slowly(self, row: int, body: bytes) -> list[tuple[bytes, bytes]]:
        simple: list[tuple[bytes, bytes]] = []
        nested: list[tuple[int, bytes, float]] = []
        step = None
        for tag, content in wire.fields(body):
            if tag == 2:
                step = wire.signed(wire.first(content, 1, 0))
            elif tag == 1:
                path, raw = wire.item(content)
                if len(path) == 1 and isinstance(raw, bytes):
                    simple.append((path[0], raw))
                    continue
                name, value = b".".join(path), wire.plain(raw)
                if isinstance(value, dict):
                    nested.extend((row, dotted, number) for dotted, number in _numbers(value, name))
                elif (number := wire.number(value)) is not None:
                    nested.append((row, name, number))
        self._nested += nested
        if step is not None:
            self._steps[row] = step
        return simple

    def columns(
        self, columns: Mapping[str, np.ndarray], nans: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """All rows as `Fragment.columns` and `Fragment.nans`, given those of the earlier reading."""
        self._turn()
        count = len(self._counts)
        numbers, index, values = (np.concatenate(parts) for parts in zip(*self._done, strict=True))
        names = [key.decode(errors="replace") for key in self._codes]
        fresh = Rows(np.zeros(count, dtype=np.int64), *table(count, names, numbers, index, values))
        found, marks = joined(columns, nans, self.start, fresh)
        self._fill_steps(found)
        return found, marks

    def _turn(self) -> None:
        """Turns the items gathered so far into arrays."""
        numbers = np.repeat(np.arange(self._turned, len(self._counts)), self._counts[self._turned :])
        keys, texts = [key for key, _ in self._items], [text for _, text in self._items]
        try:
            # Takes all of JSON's numbers, and the bare NaN and Infinity of the SDK.
            values = pc.cast(pa.array(texts, pa.binary()).cast(pa.string()), pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            kept, values = self._mixed(numbers, keys, texts)
            numbers, keys = numbers[kept], [keys[position] for position in kept]
        if self._nested:
            numbers = np.append(numbers, [number for number, _, _ in self._nested]).astype(np.int64)
            keys += [key for _, key, _ in self._nested]
            values = np.append(values, [value for _, _, value in self._nested])
        for key in dict.fromkeys(keys):
            self._codes.setdefault(key, len(self._codes))
        index = np.fromiter(map(self._codes.__getitem__, keys), dtype=np.int64, count=len(keys))
        self._done.append((numbers, index, values))
        self._items, self._nested, self._turned = [], [], len(self._counts)

    def _mixed(self, numbers: np.ndarray, keys: list[bytes], texts: list[bytes]) -> tuple[list[int], np.ndarray]:
        """Places and values of the cells that hold a number; text is left out, objects are flattened."""
        kept: list[int] = []
        values: list[float] = []
        for position, text in enumerate(texts):
            value = wire.plain(text)
            if isinstance(value, dict):
                row = int(numbers[position])
                self._nested.extend((row, name, inner) for name, inner in _numbers(value, keys[position]))
            elif (number := wire.number(value)) is not None:
                kept.append(position)
                values.append(number)
        return kept, np.array(values, dtype=np.float64)

    def _fill_steps(self, result: dict[str, np.ndarray]) -> None:
        """The record's own step stands in where it has no `_step` item."""
        if not self._steps:
            return
        column = result.setdefault("_step", np.full(self.count, np.nan))
        numbers = np.fromiter(self._steps, dtype=np.int64) + self.start
        steps = np.fromiter(self._steps.values(), dtype=np.float64)
        column[numbers] = np.where(np.isnan(column[numbers]), steps, column[numbers])


def _numbers(tree: Mapping[str, Any], prefix: bytes) -> Iterator[tuple[bytes, float]]:
    return ((name.encode(), value) for name, value in wire.numbers(tree, prefix.decode(errors="replace")))
