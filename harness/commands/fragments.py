"""W&B fragments of a resumed run, cut so that no training step is uploaded twice.

An attempt that is killed has logged steps after its last checkpoint; the next one trains and logs them again. W&B's own
sync appends fragment to fragment, so that both would show. A later fragment wins from its first step on.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from analysis.sources import wire
from analysis.sources.framing import BLOCK, FILE_HEADER, Losses, records

STEP = b"training/global_step"
_HISTORY = 2
_CHUNK_HEADER = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def cuts(files: Sequence[Path]) -> list[float]:
    """For each fragment, oldest first, the step from which on its rows are superseded; infinity where none are."""
    firsts = [_first_step(path.read_bytes()) for path in files]
    return [min(firsts[i + 1 :], default=math.inf) for i in range(len(firsts))]


def cut(data: bytes, before: float) -> bytes:
    """The .wandb file without the history rows of step `before` and later; everything else stays as it was.

    What is damaged or torn is left out.
    """
    kept = (record for record, _ in records(data, FILE_HEADER, Losses()) if not _superseded(record, before))
    return framed(kept)


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


def _first_step(data: bytes) -> float:
    for record, _ in records(data, FILE_HEADER, Losses()):
        step = step_of(record)
        if step is not None:
            return step
    return math.inf


def _superseded(record: bytes, before: float) -> bool:
    step = step_of(record)
    return step is not None and step >= before


def step_of(record: bytes) -> float | None:
    """The training step of a history record; None for any other record."""
    try:
        body = wire.first(record, _HISTORY, None)
        if not isinstance(body, bytes) or STEP not in body:
            return None
        for _, path, raw in wire.items(body):
            if path == (STEP,):
                return wire.number(wire.plain(raw))
    except wire.MALFORMED:
        return None
    return None
