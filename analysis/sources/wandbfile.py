"""One .wandb file into columns, with the standard library and numpy: neither wandb nor protobuf is imported.

Field numbers are those of wandb_internal.proto, which only grew from SDK 0.19 to 0.31. A file that has
grown is read on from where the last reading stopped.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from analysis.sources import wire
from analysis.sources.cells import Cells
from analysis.sources.framing import BLOCK, FILE_HEADER, Losses, header_is_valid, records
from harness.errors import HarnessError

_HISTORY, _SUMMARY, _CONFIG, _METRIC, _RUN, _EXIT, _HEADER = 2, 3, 5, 12, 17, 18, 21
_RUN_TEXT = {1: "id", 2: "entity", 3: "project", 6: "group", 7: "job_type", 8: "name", 9: "notes", 13: "host"}
_CHECKED = 4096  # bytes before the stopping point that must be unchanged for a file to count as grown


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Fragment:
    """What one .wandb file holds. A run that was resumed has several."""

    path: Path
    size: int
    mtime_ns: int
    offset: int
    """Just after the last whole record."""
    check: int
    """crc32 of the bytes before `offset`."""
    last_number: int
    """Running number of the last record."""
    rows: int
    """History rows, those without a usable value included."""
    columns: Mapping[str, np.ndarray]
    """Metric -> (rows,) float64, NaN where a row does not have it; W&B's own `_step`, `_timestamp`,
    `_runtime` too."""
    nans: Mapping[str, np.ndarray]
    """Metric -> numbers of the rows in which NaN itself was logged."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """id, entity, project, group, job_type, name, notes, host, tags, started (unix seconds), resumed, sdk,
    and step_metrics: the names that `define_metric` made a step axis."""
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    losses: Losses = field(default_factory=Losses)

    @property
    def id(self) -> str:
        """The run's id; from the file's name where the record that holds it is lost or not written yet."""
        return self.meta.get("id") or self.path.stem.removeprefix("run-")


def read(path: Path, previous: Fragment | None = None) -> Fragment:
    """Reads a .wandb file: everything intact, with a count of what was not.

    With the `previous` reading of the same file only what was appended since is parsed; a file that was
    replaced, or had damage that may have been mended since, is read from its start.

    Raises:
        HarnessError: no such file, or nothing in it is a W&B record.
    """
    try:
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            if previous is not None and not _has_grown(file.fileno(), stat.st_size, previous):
                previous = None
            base = previous.offset - previous.offset % BLOCK if previous else 0
            file.seek(base)
            data = file.read()
    except OSError as error:
        raise HarnessError(f"{path} cannot be read ({error.strerror}): check path and permissions") from None
    reader = _Reader(previous)
    reader.read(data, base)
    if not reader.seen and len(data) >= FILE_HEADER and not header_is_valid(data) and previous is None:
        raise HarnessError(f"{path} holds no W&B record: it is no .wandb file or destroyed; remove it")
    return reader.fragment(path, data, base, base + len(data), stat.st_mtime_ns)


def _has_grown(handle: int, size: int, previous: Fragment) -> bool:
    if size < previous.size or previous.losses.any or not previous.offset:
        return False
    start = max(0, previous.offset - _CHECKED)
    return zlib.crc32(os.pread(handle, previous.offset - start, start)) == previous.check


class _Reader:
    """Gathers the records of one file."""

    def __init__(self, previous: Fragment | None) -> None:
        self.previous = previous
        self.offset = previous.offset if previous else 0
        self.number = previous.last_number if previous else 0
        self.losses = Losses()
        self.seen = 0
        self.cells = Cells(previous.rows if previous else 0)
        self.summary: dict[str, Any] = _copy(previous.summary) if previous else {}
        # Summary values that are still JSON text: each row replaces nearly all of them.
        self.latest: dict[bytes, bytes] = {}
        self.config: dict[str, Any] = _copy(previous.config) if previous else {}
        self.meta: dict[str, Any] = dict(previous.meta) if previous else {}
        self.exit_code = previous.exit_code if previous else None

    def read(self, data: bytes, base: int) -> None:
        position = self.offset - base
        if not self.offset:
            position = FILE_HEADER
            self.losses.header = len(data) >= FILE_HEADER and not header_is_valid(data)
        for record, end in records(data, position, self.losses):
            self.offset = base + end
            self.seen += 1
            try:
                self.take(record)
            except wire.MALFORMED:  # the checksum holds, but this is no record we know: count it, go on
                self.losses.records += 1

    def take(self, record: bytes) -> None:
        for tag, value in wire.fields(record):
            if tag == 1:  # the running number, written first
                self.losses.records += max(0, value - self.number - 1)
                self.number = max(self.number, value)
            elif tag == _HISTORY:
                self.cells.add(value)
            elif tag == _SUMMARY:
                self.update_summary(value)
            elif tag in (_CONFIG, _RUN, _METRIC, _EXIT, _HEADER):
                self.about(tag, value)

    def update_summary(self, body: bytes) -> None:
        found = wire.simple_items(body, len(body))
        if found is not None:
            self.latest.update(found)
            return
        for tag, path, raw in wire.items(body):
            if path[0] in self.latest:  # an older value of the same entry must not overrule this one later
                self.summary[path[0].decode()] = wire.plain(self.latest.pop(path[0]))
            wire.apply(self.summary, tag, path, raw)

    def about(self, tag: int, body: bytes) -> None:
        if tag == _CONFIG:
            self.configure(body)
        elif tag == _EXIT:
            self.exit_code = wire.signed(wire.first(body, 1, 0))
        elif tag == _METRIC:
            names = {number: value for number, value in wire.fields(body) if number in (1, 4)}
            if names.get(4):
                known = self.meta.setdefault("step_metrics", [])
                if (name := names[4].decode()) not in known:
                    known.append(name)
        elif tag == _HEADER:
            self.meta["sdk"] = wire.first(wire.first(body, 1, b""), 1, b"").decode()
        else:
            self.run(body)

    def configure(self, body: bytes) -> None:
        for tag, path, raw in wire.items(body):
            wire.apply(self.config, tag, path, raw)

    def run(self, body: bytes) -> None:
        tags: list[str] = []
        for number, value in wire.fields(body):
            if number in _RUN_TEXT:
                self.meta[_RUN_TEXT[number]] = value.decode()
            elif number == 10:
                tags.append(value.decode())
            elif number == 4:
                self.configure(value)
            elif number == 17:
                self.meta["started"] = wire.timestamp(value)
            elif number == 18:
                self.meta["resumed"] = bool(value)
        self.meta["tags"] = tags

    def fragment(self, path: Path, data: bytes, base: int, size: int, mtime_ns: int) -> Fragment:
        start = max(0, self.offset - _CHECKED)
        if start >= base:
            check = zlib.crc32(memoryview(data)[start - base : self.offset - base])
        else:  # the checked bytes begin before what was read this time
            with path.open("rb") as file:
                check = zlib.crc32(os.pread(file.fileno(), self.offset - start, start))
        self.summary.update((key.decode(), wire.plain(text)) for key, text in self.latest.items())
        before = (self.previous.columns, self.previous.nans) if self.previous else ({}, {})
        columns, nans = self.cells.columns(*before)
        return Fragment(
            path=path,
            size=size,
            mtime_ns=mtime_ns,
            offset=self.offset,
            check=check,
            last_number=self.number,
            rows=self.cells.count,
            columns=columns,
            nans=nans,
            meta=self.meta,
            config=self.config,
            summary=self.summary,
            exit_code=self.exit_code,
            losses=self.losses,
        )


def _copy(tree: Any) -> Any:
    return {key: _copy(value) for key, value in tree.items()} if isinstance(tree, Mapping) else tree


def losses_text(fragment: Fragment) -> str | None:
    """One line for the report on what is missing from this file, or None when nothing is."""
    lost = fragment.losses
    if not lost.any:
        return None
    parts = []
    if lost.header:
        parts.append("damaged file header")
    if lost.regions:
        parts.append(f"{lost.regions} damaged region{'s' * (lost.regions > 1)} ({lost.bytes} bytes) skipped")
    if lost.records:
        parts.append(f"{lost.records} of {fragment.last_number} records lost")
    return f"{fragment.path.name}: {', '.join(parts)}"
