"""History records of a .wandb file into float columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analysis.sources import wire


class Cells:
    """Gathers HistoryRecords; `columns` turns them into arrays at once, which is what makes reading fast."""

    def __init__(self, start: int) -> None:
        self.start = start
        """Rows known from an earlier reading: the first record added has this number."""
        self._items: list[tuple[bytes, bytes]] = []
        self._counts: list[int] = []
        self._steps: dict[int, int] = {}
        self._nested: list[tuple[int, str, float]] = []

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

    def _add_slowly(self, row: int, body: bytes) -> list[tuple[bytes, bytes]]:
        simple: list[tuple[bytes, bytes]] = []
        nested: list[tuple[int, str, float]] = []
        step = None
        for tag, content in wire.fields(body):
            if tag == 2:
                step = wire.signed(wire.first(content, 1, 0))
            elif tag == 1:
                path, raw = wire.item(content)
                if len(path) == 1 and isinstance(raw, bytes):
                    simple.append((path[0], raw))
                    continue
                name, value = ".".join(part.decode() for part in path), wire.plain(raw)
                if isinstance(value, dict):
                    nested.extend((row, dotted, number) for dotted, number in wire.numbers(value, name))
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
        rows, names, values = self._flat()
        codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
        index = np.fromiter(map(codes.__getitem__, names), dtype=np.int64, count=len(names))
        table = np.full((len(codes), len(self._counts)), np.nan)
        table[index, rows] = values  # of repeated cells the later one stays

        result: dict[str, np.ndarray] = {}
        for name in dict.fromkeys([*columns, *codes]):
            before = columns[name] if name in columns else np.full(self.start, np.nan)
            after = table[codes[name]] if name in codes else np.full(len(self._counts), np.nan)
            result[name] = np.append(before, after) if self.start else after
        marked = {name: [numbers] for name, numbers in nans.items()}
        missing = np.isnan(values)
        for code in np.unique(index[missing]).tolist():
            logged = np.unique(rows[missing & (index == code)])
            real = logged[np.isnan(table[code, logged])]  # a later cell of the same row may hold a number
            if len(real):
                marked.setdefault(list(codes)[code], []).append(real + self.start)
        self._fill_steps(result)
        return result, {name: np.concatenate(parts) for name, parts in marked.items()}

    def _flat(self) -> tuple[np.ndarray, list[str], np.ndarray]:
        rows = np.repeat(np.arange(len(self._counts)), self._counts)
        text_of = {key: key.decode(errors="replace") for key in {key for key, _ in self._items}}
        names = [text_of[key] for key, _ in self._items]
        try:
            # float() takes JSON's numbers as bytes, bare NaN and Infinity included.
            values = np.array([float(text) for _, text in self._items], dtype=np.float64)
        except ValueError:
            rows, names, values = self._flat_mixed(rows, names)
        if self._nested:
            rows = np.append(rows, [row for row, _, _ in self._nested]).astype(np.int64)
            names += [name for _, name, _ in self._nested]
            values = np.append(values, [value for _, _, value in self._nested])
        return rows, names, values

    def _flat_mixed(self, rows: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str], np.ndarray]:
        """The same where some values are no plain numbers: text is left out, objects are flattened."""
        kept: list[int] = []
        values: list[float] = []
        for position, (_, text) in enumerate(self._items):
            try:
                number: float | None = float(text)
            except ValueError:
                value = wire.plain(text)
                if isinstance(value, dict):
                    found = wire.numbers(value, names[position])
                    self._nested.extend((int(rows[position]), name, inner) for name, inner in found)
                number = wire.number(value)
            if number is not None:
                kept.append(position)
                values.append(number)
        return rows[kept], [names[position] for position in kept], np.array(values, dtype=np.float64)

    def _fill_steps(self, result: dict[str, np.ndarray]) -> None:
        """The record's own step stands in where it has no `_step` item."""
        if not self._steps:
            return
        column = result.setdefault("_step", np.full(self.count, np.nan))
        numbers = np.fromiter(self._steps, dtype=np.int64) + self.start
        steps = np.fromiter(self._steps.values(), dtype=np.float64)
        column[numbers] = np.where(np.isnan(column[numbers]), steps, column[numbers])
