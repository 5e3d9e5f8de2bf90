"""The harness's own metrics.jsonl: one line a training step, appended by every attempt."""

from __future__ import annotations

import json
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from analysis.sources import rows, wire
from analysis.sources.framing import Losses
from analysis.sources.rows import Gather, Rows, joined
from analysis.sources.wandbfile import Fragment
from harness.errors import HarnessError

_CHECKED = 4096  # bytes before the stopping point that must be unchanged for a file to count as grown

_PLAIN = frozenset((int, float))


def read(path: Path, previous: Fragment | None = None) -> Fragment:
    """Reads a metrics.jsonl. Columns are the metrics, `_step`, `_attempt` and `_timestamp` (unix seconds). A null is
    NaN: so the trainer writes what is not finite.

    With the `previous` reading only complete lines that were appended since are parsed. Damaged lines are
    counted.

    Raises:
        HarnessError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            if previous is not None and not _has_grown(file.fileno(), stat.st_size, previous):
                previous = None
            start = previous.offset if previous else 0
            file.seek(start)
            data = file.read()
            end = data.rfind(b"\n") + 1
            tail = os.pread(file.fileno(), min(_CHECKED, start + end), max(0, start + end - _CHECKED))
    except OSError as error:
        raise HarnessError(f"{path} cannot be read ({error.strerror}): check path and permissions") from None
    losses = Losses(torn=len(data) - end)
    gathered = Gather()
    for line in data[:end].splitlines():
        if line.strip():
            row = _row(line)
            if row is None:
                losses.records += 1
                losses.bytes += len(line)
            else:
                gathered.add(row)
    first = previous.rows if previous else 0
    known = (previous.columns, previous.nans) if previous else ({}, {})
    columns, nans = joined(*known, first, gathered.rows())
    return Fragment(
        path=path,
        size=start + len(data),
        mtime_ns=stat.st_mtime_ns,
        offset=start + end,
        check=zlib.crc32(tail),
        last_number=first + len(gathered) + losses.records,
        rows=first + len(gathered),
        columns=columns,
        nans=nans,
        losses=losses,
    )


def _has_grown(handle: int, size: int, previous: Fragment) -> bool:
    if size < previous.size or previous.losses.any:
        return False
    start = max(0, previous.offset - _CHECKED)
    return zlib.crc32(os.pread(handle, previous.offset - start, start)) == previous.check


def _row(line: bytes) -> dict[str, float] | None:
    try:
        content: Any = json.loads(line)
        row = {"_step": float(content["step"]), "_attempt": float(content.get("attempt", 1))}
        if not rows.is_step(row["_step"]) or not rows.is_step(row["_attempt"]):
            return None
        if "time" in content:
            row["_timestamp"] = float(content["time"])
        metrics = content["metrics"]
        if _PLAIN.issuperset(map(type, metrics.values())):
            row.update(metrics)
            return row
        for name, value in metrics.items():
            if isinstance(value, dict):
                row.update(wire.numbers(value, name))
            elif (number := math.nan if value is None else wire.number(value)) is not None:
                row[name] = number
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):  # a line of any other shape is a damaged line
        return None
    return row


def logged(fragment: Fragment) -> Rows:
    """The rows on the training step, those of the first attempt first."""
    if not fragment.rows:
        return Rows(np.empty(0, dtype=np.int64), {})
    order = np.argsort(fragment.columns["_attempt"], kind="stable")
    metrics = {name: values for name, values in fragment.columns.items() if name not in ("_step", "_attempt")}
    whole = Rows(fragment.columns["_step"].astype(np.int64), metrics, fragment.nans)
    return whole if (np.diff(order) > 0).all() else whole.take(order)
