"""Writes .wandb files byte by byte, so that tests decide what is in them. Independent of the reader's
code."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BLOCK = 32768


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def scalar(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def item(path: str | Iterable[str], value: Any) -> bytes:
    keys = [path] if isinstance(path, str) else list(path)
    return b"".join(message(2, key.encode()) for key in keys) + message(16, json.dumps(value).encode())


def history(row: Mapping[str, Any], step: int | None = None) -> bytes:
    body = b"".join(message(1, item(key, value)) for key, value in row.items())
    return message(2, body + (message(2, scalar(1, step)) if step is not None else b""))


def run(id: str, started: int = 1_790_000_000, config: Mapping[str, Any] | None = None, **text: str) -> bytes:
    numbers = {"entity": 2, "project": 3, "group": 6, "name": 8}
    body = message(1, id.encode()) + b"".join(message(numbers[key], value.encode()) for key, value in text.items())
    updates = b"".join(message(1, item(key, value)) for key, value in (config or {}).items())
    return message(17, body + message(4, updates) + message(17, scalar(1, started)))


def leave(code: int = 0) -> bytes:
    return message(18, scalar(1, code))


def file(records: Iterable[bytes]) -> bytes:
    """A whole .wandb file; records are numbered from 1 on."""
    out = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for number, body in enumerate(records, 1):
        data, first = scalar(1, number) + body, True
        while True:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += bytes(left)
                left = BLOCK
            piece, data = data[: left - 7], data[left - 7 :]
            kind = (1 if first else 4) if not data else (2 if first else 3)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            first = False
            if not data:
                break
    return bytes(out)


def write(root: Path, id: str, records: Iterable[bytes], stamp: str = "20260101_000000") -> Path:
    folder = root / "wandb" / f"offline-run-{stamp}-{id}"
    folder.mkdir(parents=True)
    path = folder / f"run-{id}.wandb"
    path.write_bytes(file(records))
    return path


def rows(first: int, last: int, **metrics: Any) -> list[bytes]:
    """One history record a training step; a metric is a number or a function of the step."""
    return [
        history(
            {
                "training/global_step": step,
                "_step": step,
                **{name: value(step) if callable(value) else value for name, value in metrics.items()},
            }
        )
        for step in range(first, last + 1)
    ]
