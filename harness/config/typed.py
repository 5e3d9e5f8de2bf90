"""Frozen dataclasses from plain values and back; what is unknown, missing or of the wrong type is named by its key."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from harness.errors import HarnessError, check, nearest


@functools.cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)  # it compiles the texts of the annotations: 1 ms a class


def construct(cls: type[Any], values: Mapping[str, Any], where: str = "") -> Any:
    """Builds the dataclass `cls` from plain values, recursively.

    Raises: HarnessError naming the dotted key where one is unknown, missing or of the wrong type.
    """
    hints = _hints(cls)  # type: ignore[arg-type]
    names = [field.name for field in dataclasses.fields(cls)]
    dot = f"{where}." if where else ""
    if not isinstance(values, Mapping):
        raise HarnessError(f"{where or cls.__name__}={values!r}: expected a group with the keys {', '.join(names)}")
    for key in values:
        if key not in names:
            raise HarnessError(f"{dot}{key}: no such setting; {nearest(dot + str(key), [dot + n for n in names])}")
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        key = dot + field.name
        if field.name in values:
            arguments[field.name] = _convert(hints[field.name], values[field.name], key)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise HarnessError(f"{key}: missing; set it in conf/ or on the command line as {key}=...")
    return cls(**arguments)


def _convert(hint: Any, value: Any, key: str) -> Any:
    if isinstance(hint, types.UnionType):  # X | None
        if value is None:
            return None
        return _convert(next(a for a in typing.get_args(hint) if a is not type(None)), value, key)
    if typing.get_origin(hint) is dict:
        check(isinstance(value, Mapping), key, repr(value), "expected a mapping such as {name: value}")
        return {str(name): str(item) for name, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return construct(typing.cast(type, hint), value, key)
    if typing.get_origin(hint) is tuple:
        if isinstance(value, str) or not isinstance(value, list | tuple):
            raise HarnessError(f"{key}={value!r}: expected a list such as [{value}]")
        inner = typing.get_args(hint)[0]
        return tuple(_convert(inner, item, f"{key}[{i}]") for i, item in enumerate(value))
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise HarnessError(f"{key}={value}: expected a finite number")
        return float(value)
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    kind = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(hint, str(hint))
    raise HarnessError(f"{key}={value!r}: expected {kind}")


def to_plain(settings: Any) -> Any:
    """The settings as plain JSON values, in the order of the fields."""
    if dataclasses.is_dataclass(settings):
        return {f.name: to_plain(getattr(settings, f.name)) for f in dataclasses.fields(settings)}
    return [to_plain(item) for item in settings] if isinstance(settings, tuple) else settings
