"""The framing of a .wandb file: a log of checksummed records in 32 KiB blocks, as LevelDB writes it.

A 7-byte file header (`:W&B`, 0xBEE1, version 0) is followed by chunks `<crc32: u32> <length: u16> <type: u8>
<data>`, little endian, crc over type and data. A record is one FULL chunk or FIRST, MIDDLE..., LAST; no chunk
crosses a block boundary, and fewer than seven bytes left in a block are zeros.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = 32768
FILE_HEADER = 7
_CHUNK_HEADER = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# zlib.crc32(data, seed of the type byte) is the checksum without joining type and data.
_SEEDS = tuple(zlib.crc32(bytes([kind])) for kind in range(5))
_KINDS = re.compile(rb"[\x01-\x04]")
_unpack_header = struct.Struct("<IHB").unpack_from


@dataclass(slots=True)
class Losses:
    """What reading could not recover. Mutable: the reader counts while it goes."""

    regions: int = 0
    """Damaged stretches that were skipped."""
    bytes: int = 0
    """Their length together."""
    records: int = 0
    """Missing records: gaps in their running numbers, and records whose checksum holds but that do not
    parse."""
    torn: int = 0
    """Bytes of an unfinished record at the end: normal while a run is alive, and after a kill."""
    header: bool = False
    """The file header is damaged."""

    @property
    def any(self) -> bool:
        """Damage within the file; a torn end alone is none."""
        return bool(self.regions or self.records or self.header)


def header_is_valid(data: bytes) -> bool:
    """Whether `data` starts with the header of format version 0."""
    return data[:FILE_HEADER] == b":W&B\xe1\xbe\x00"


def records(data: bytes, position: int, losses: Losses) -> Iterator[tuple[bytes, int]]:
    """Yields every intact record from `position` on, with the position just after it.

    `data` must start at a block boundary of the file. After damage the search goes on at the next chunk whose
    checksum holds, wherever it is: LevelDB's own reader drops the rest of the block. Adds to `losses`;
    damage never raises.
    """
    size = len(data)
    parts: list[bytes] | None = None
    start_of_record = position  # where the unfinished record began
    while True:
        left = BLOCK - position % BLOCK
        if left < _CHUNK_HEADER:
            position += left
        if position >= size:
            break
        kind, end = _chunk(data, position, size)
        if not kind:
            found = _next_chunk(data, position, size)
            if found is None:
                break
            losses.regions += 1
            losses.bytes += found - position
            position, parts = found, None
            continue
        chunk = data[position + _CHUNK_HEADER : end]
        if kind == _FULL:
            parts = None
            yield chunk, end
        elif kind == _FIRST:
            parts, start_of_record = [chunk], position
        elif parts is not None:
            parts.append(chunk)
            if kind == _LAST:
                whole, parts = b"".join(parts), None
                yield whole, end
        position = end
    if parts is None:
        start_of_record = position
    if start_of_record < size:
        _count_end(data, start_of_record, position, losses)


def _chunk(data: bytes, position: int, size: int) -> tuple[int, int]:
    """Type and end of the chunk at `position`, or (0, 0) if none is intact there."""
    if position + _CHUNK_HEADER > size:
        return 0, 0
    crc, length, kind = _unpack_header(data, position)
    end = position + _CHUNK_HEADER + length
    if not 1 <= kind <= 4 or end > size or length > BLOCK - _CHUNK_HEADER - position % BLOCK:
        return 0, 0
    if zlib.crc32(memoryview(data)[position + _CHUNK_HEADER : end], _SEEDS[kind]) != crc:
        return 0, 0
    return kind, end


def _next_chunk(data: bytes, position: int, size: int) -> int | None:
    """Where the next intact chunk after `position` starts; a chance match of a checksum is one in four
    billion."""
    position += 1
    while position < size:
        block_end = min(position - position % BLOCK + BLOCK, size)
        for match in _KINDS.finditer(data, position + _CHUNK_HEADER - 1, block_end):
            start = match.start() - _CHUNK_HEADER + 1
            if _chunk(data, start, size)[0]:
                return start
        position = block_end
    return None


def _count_end(data: bytes, start: int, position: int, losses: Losses) -> None:
    """Tells a torn end from a damaged one. The unfinished record began at `start`; no intact chunk is at
    `position`."""
    rest = len(data) - position
    torn = rest < _CHUNK_HEADER
    if not torn:
        _, length, kind = _unpack_header(data, position)
        fits_block = length <= BLOCK - _CHUNK_HEADER - position % BLOCK
        torn = 1 <= kind <= 4 and fits_block and length > rest - _CHUNK_HEADER
    if torn:
        losses.torn += len(data) - start
    else:
        losses.regions += 1
        losses.bytes += len(data) - start
