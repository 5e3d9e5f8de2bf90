"""Protobuf's wire format, as far as the records of a .wandb file need it."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

_double = struct.Struct("<d").unpack_from
_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
MALFORMED = (IndexError, ValueError, TypeError, AttributeError, struct.error)
"""What reading bytes that are no such message can raise: values of an unexpected wire type included."""
Raw = bytes | tuple[Any]
"""A value as JSON text, or a one-tuple of a value that was typed on the wire."""
_SIMPLE = re.compile(rb"\n[\x00-\x7f]\x12[\x00-\x7f]([ -~]+)\x82\x01[\x00-\x7f]([ -~]*)")
_SIMPLE_OVERHEAD = 7  # bytes of an item beside its two texts


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yields (field number, value): int of a varint, bytes of all else.

    Raises:
        IndexError, ValueError: the bytes are no message.
    """
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == 2:
            size, position = _varint(data, position)
            stop = position + size
        elif kind == 0:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        elif kind in (1, 5):
            stop = position + (8 if kind == 1 else 4)
        else:
            raise ValueError(f"wire type {kind}")
        if stop > end:
            raise IndexError("a field reaches beyond its message")
        yield tag >> 3, data[position:stop]
        position = stop


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def first(data: bytes, wanted: int, default: Any) -> Any:
    """The value of the first field with this number."""
    return next((value for number, value in fields(data) if number == wanted), default)


def signed(value: int) -> int:
    """An int32 or int64, which the wire carries as an unsigned 64-bit number."""
    return value - (1 << 64) if value >> 63 else value


def timestamp(message: bytes) -> float:
    """Unix seconds of a google.protobuf.Timestamp."""
    parts = dict(fields(message))
    return signed(parts.get(1, 0)) + parts.get(2, 0) / 1e9


def item(data: bytes) -> tuple[tuple[bytes, ...], Raw]:
    """Path and value of a HistoryItem, SummaryItem or ConfigItem.

    All SDKs so far write `nested_key` (2) and `value_json` (16); `key` (1) and the typed values (3 to 8) of
    newer definitions are understood too.
    """
    key: bytes | None = None
    nested: list[bytes] = []
    value: Raw = b"null"
    for number, content in fields(data):
        if number in (8, 16):
            value = content
        elif number == 2:
            nested.append(content)
        elif number == 1:
            key = content
        elif number == 3:
            value = (None,)
        elif number == 4:
            value = (bool(content),)
        elif number == 5:
            value = ((content >> 1) ^ -(content & 1),)  # sint64 is zigzag-coded
        elif number == 6:
            value = (_double(content)[0],)
        elif number == 7:
            value = (content.decode(),)
    return (key,) if key else tuple(nested) or (b"",), value


def simple_items(body: bytes, end: int) -> list[tuple[bytes, bytes]] | None:
    """(key, JSON text) of every item in body[:end], or None unless all have the form that every SDK writes.

    That form is one `nested_key` and one `value_json`, each of printable ASCII and less than 128 bytes.
    Then the bytes that are no text delimit the texts, and one regular expression parses a record ten times
    faster than a loop.
    """
    found = _SIMPLE.findall(body, 0, end)
    covered = _SIMPLE_OVERHEAD * len(found) + sum(map(len, chain.from_iterable(found)))
    return found if covered == end else None


def history(body: bytes) -> tuple[list[tuple[bytes, bytes]] | None, int | None]:
    """`simple_items` of a HistoryRecord and the record's own step, where it has one; (None, None): use
    `items`."""
    end, step = len(body), None
    cut = body.rfind(b"\x12", max(0, end - 13))
    if cut >= 0 and cut + 2 < end and body[cut + 1] == end - cut - 2 and body[cut + 2] == 8:
        step, stop = _varint(body, cut + 3)
        if stop != end:
            return None, None
        end = cut
    found = simple_items(body, end)
    return (found, step if step is None else signed(step)) if found is not None else (None, None)


def items(body: bytes) -> Iterator[tuple[int, tuple[bytes, ...], Raw]]:
    """(field number, path, value) of each update (1) and removal (2) of a Summary-, Config- or
    HistoryRecord."""
    for tag, content in fields(body):
        if tag in (1, 2):
            path, raw = item(content)
            yield tag, path, raw


def plain(raw: Raw) -> Any:
    """The Python value; None for text that is no JSON. NaN and Infinity stand bare in the SDK's JSON."""
    if isinstance(raw, tuple):
        return raw[0]
    try:
        return json.loads(raw)
    except ValueError:
        return None


def number(value: Any) -> float | None:
    """A metric's value: numbers and booleans, and the strings under which JSON carries NaN and infinities."""
    if isinstance(value, (int, float)):
        return float(value)
    return _SPECIAL.get(value) if isinstance(value, str) else None


def numbers(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    """The numbers in a nested value under dotted names; media and tables (`_type`) hold none."""
    if "_type" in tree:
        return
    for key, value in tree.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            yield from numbers(value, name)
        elif (found := number(value)) is not None:
            yield name, found


def apply(tree: dict[str, Any], tag: int, path: tuple[bytes, ...], raw: Raw) -> None:
    """Applies one of `items`, an update or a removal, to a nested dict."""
    keys = [part.decode(errors="replace") for part in path]
    if tag == 1:
        put(tree, keys, plain(raw))
    else:
        remove(tree, keys)


def put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    """Sets a value at a path of a nested dict, making the levels."""
    for key in path[:-1]:
        below = tree.get(key)
        if not isinstance(below, dict):
            below = tree[key] = {}
        tree = below
    tree[path[-1]] = value


def remove(tree: dict[str, Any], path: list[str]) -> None:
    """Removes what is at a path of a nested dict, if anything is."""
    for key in path[:-1]:
        below = tree.get(key)
        if not isinstance(below, dict):
            return
        tree = below
    tree.pop(path[-1], None)
