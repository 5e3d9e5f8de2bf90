"""W&B fragments of a resumed run, cut so that no training step is uploaded twice.

An attempt that is killed has logged steps after its last checkpoint; the next one trains and logs them again. W&B's own
sync appends fragment to fragment, whatever is on the server already, so that both would show. What is undone is what
`analysis.sources.rows` calls so. A row that is on the server cannot be taken back: its step is not uploaded again.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis import aliases
from analysis.sources import local, rows, wire
from analysis.sources.cells import Cells
from analysis.sources.framing import BLOCK, FILE_HEADER, Losses, records

_HISTORY = 2
_CHUNK_HEADER = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Which history rows of a run's fragments to upload."""

    rows: Mapping[Path, np.ndarray]
    """Fragment -> (rows,) bool, a value for each history row of the file; True: upload it."""
    undone: tuple[int, ...]
    """Steps that are on the server as an attempt logged them that was undone later, ascending."""


def select(fragments: Sequence[Path], sent: Mapping[Path, np.ndarray]) -> Selection:
    """What of the fragments (.wandb files, oldest first) is to be uploaded.

    Args:
        sent: fragment -> (rows,) bool, the history rows that were uploaded before; a file may have grown since.
    """
    read = [local.read(path) for path in fragments]
    axis = local.step_axis(read)
    steps = [local.steps_on(fragment, axis) for fragment in read]
    placed = [np.flatnonzero(np.abs(found) <= 2**53) for found in steps]
    log = rows.concatenate([local.on_axis(fragment, axis)[0] for fragment in read])
    alive = rows.survivors(log, axis)
    there = [_extended(sent.get(path), fragment.rows) for path, fragment in zip(fragments, read, strict=True)]
    before = np.concatenate([was[numbers] for was, numbers in zip(there, placed, strict=True)])
    last, stale = _at_one_step(log, alive, axis)
    wanted = last & ~_on_server(log, before, axis)
    chosen: dict[Path, np.ndarray] = {}
    ends = np.cumsum([len(numbers) for numbers in placed])
    for path, was, numbers, part in zip(fragments, there, placed, np.split(wanted, ends[:-1]), strict=True):
        keep = ~was  # rows without a step are uploaded as they are
        keep[numbers] &= part
        chosen[path] = keep
    return Selection(chosen, tuple(np.unique(log.steps[before & stale]).tolist()))


def _extended(sent: np.ndarray | None, count: int) -> np.ndarray:
    whole = np.zeros(count, dtype=bool)
    if sent is not None:
        whole[: len(sent)] = sent[:count]
    return whole


def _at_one_step(log: rows.Rows, alive: np.ndarray, axis: str) -> tuple[np.ndarray, np.ndarray]:
    """(n,) bool twice: the rows that say something that no later row of the same step does; those that were undone, or
    contradicted by such a row."""
    last, stale = np.zeros(len(log), dtype=bool), ~alive
    measured = [log.logged(name) for name in _measured(log, axis)]
    silent = ~np.any([np.zeros(len(log), dtype=bool), *measured], axis=0)
    for logged in (*measured, silent):
        numbers = np.flatnonzero(logged & alive)
        _, place = np.unique(log.steps[numbers][::-1], return_index=True)
        last[numbers[::-1][place]] = True
    for name, logged in zip(_measured(log, axis), measured, strict=True):
        numbers = np.flatnonzero(logged & alive)
        steps, group = np.unique(log.steps[numbers], return_inverse=True)
        values = log.columns[name][numbers]
        final = np.zeros(len(steps))
        final[group] = values  # of repeated indices numpy keeps the last
        stale[numbers] |= ~((final[group] == values) | np.isnan(final[group]) & np.isnan(values))
    return last, stale


def _measured(log: rows.Rows, axis: str) -> list[str]:
    return [name for name in log.columns if name != axis and aliases.is_measured(name)]


def _on_server(log: rows.Rows, before: np.ndarray, axis: str) -> np.ndarray:
    """(n,) bool: rows of which something was uploaded for the same step; a row that measures nothing repeats any."""
    found = np.zeros(len(log), dtype=bool)
    says = np.zeros(len(log), dtype=bool)
    for name in _measured(log, axis):
        logged = log.logged(name)
        says |= logged
        found |= logged & np.isin(log.steps, log.steps[logged & before])
    return found | (~says & np.isin(log.steps, log.steps[before]))


def cut(data: bytes, keep: np.ndarray) -> bytes:
    """The .wandb file without the history rows that are not to be kept; everything else stays as it was.

    What is damaged or torn is left out. Args: keep: (rows,) bool, as `Selection.rows`.
    """
    return framed(record for record, row in _numbered(data) if row is None or (row < len(keep) and keep[row]))


def _numbered(data: bytes) -> Iterator[tuple[bytes, int | None]]:
    """Every intact record, and the number that the reader gives its history row; None of any other record."""
    cells = Cells(0)
    for record, _ in records(data, FILE_HEADER, Losses()):
        number = None
        try:
            body = wire.first(record, _HISTORY, None)
            if isinstance(body, bytes):
                cells.add(body)
                number = cells.count - 1
        except wire.MALFORMED:
            pass  # the reader counts no row here either
        yield record, number


def framed(bodies: Iterable[bytes]) -> bytes:
    """A .wandb file of these records (see analysis.sources.framing for the format)."""
    out = bytearray(b":W&B\xe1\xbe\x00")
    for body in bodies:
        position, begun = 0, False
        while True:
            left = BLOCK - len(out) % BLOCK
            if left < _CHUNK_HEADER:
                out += bytes(left)
                left = BLOCK
            piece = body[position : position + left - _CHUNK_HEADER]
            position += len(piece)
            ended = position == len(body)
            kind = (_LAST if ended else _MIDDLE) if begun else (_FULL if ended else _FIRST)
            out += struct.pack("<IHB", zlib.crc32(piece, zlib.crc32(bytes([kind]))), len(piece), kind) + piece
            begun = True
            if ended:
                break
    return bytes(out)
