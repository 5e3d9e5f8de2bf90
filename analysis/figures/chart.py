"""What a figure shows, apart from how it is drawn: the same chart becomes a PDF and an interactive plot."""

from __future__ import annotations

import dataclasses
import hashlib
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis; the label carries the unit."""

    label: str
    low: float | None = None
    high: float | None = None
    bounds: tuple[float, float] | None = None
    """What the quantity cannot leave: an axis that follows its values stops there."""
    log: bool = False
    ticks: tuple[float, ...] | None = None
    names: tuple[str, ...] | None = None
    """What stands at the ticks, where it is not their value; a newline breaks it."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Curve:
    """A line over x, with a band where `low` and `high` are given."""

    x: Floats
    y: Floats
    name: str
    """In the legend; curves of one name share an entry."""
    color: str
    dash: str = "solid"
    low: Floats | None = None
    high: Floats | None = None
    thin: bool = False
    """One of several seeds, drawn light."""
    detail: str = ""
    """Shown on hover beside the name: the run."""
    points: bool = False
    """Few measured values: mark each."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Layer:
    """One layer of a stack over x; layers of a panel add up in the order given."""

    x: Floats
    y: Floats
    name: str
    color: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar, or one dot with its interval where the panel says `dots`."""

    at: str
    """The category on the axis."""
    value: float
    name: str
    color: str
    low: float | None = None
    high: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dots:
    """Measured points, with an interval each where `low` and `high` are given."""

    x: Floats
    y: Floats
    name: str
    color: str
    low: Floats | None = None
    high: Floats | None = None
    texts: tuple[str, ...] = ()
    """Shown on hover, one a point."""
    hollow: bool = False
    """A ring: something is drawn inside."""
    small: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Heat:
    """A matrix of values, first row at the top."""

    values: Floats
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A reference line across the panel."""

    value: float
    text: str = ""
    vertical: bool = False


Mark = Curve | Layer | Bar | Dots | Heat | Rule


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Panel:
    """One set of axes."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    title: str = ""
    horizontal: bool = False
    """Bars lie: categories on the y axis, values along x."""
    dots: bool = False
    """Bars are drawn as dots with intervals, which need no zero."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Chart:
    """A figure of one or more panels."""

    key: str
    """File name and anchor."""
    title: str
    caption: str
    """What the reader must know to read it: what a band is, from which files, how many."""
    panels: tuple[Panel, ...]
    columns: int = 3
    log: bool = False
    """Whether a logarithmic y axis makes sense, so that the page offers it."""
    notes: tuple[str, ...] = ()
    """What could not be shown, and why."""


def title_lines(title: str, width: int = 32) -> list[str]:
    """A panel's title in lines of at most about `width` characters, broken at its middle dots or spaces."""
    lines: list[str] = []
    for part in title.split(" · "):
        if lines and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" · {part}"
        else:
            lines += textwrap.wrap(part, width)
    return lines


def digest(chart: Chart, salt: bytes = b"") -> str:
    """A hash of everything that a chart shows, so that an unchanged figure need not be drawn again."""
    found = hashlib.sha256(salt)
    _feed(found, chart)
    return found.hexdigest()


def _feed(found: Any, value: object) -> None:
    if isinstance(value, np.ndarray):
        found.update(str(value.shape).encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, tuple):
        found.update(f"({len(value)}".encode())
        for item in value:
            _feed(found, item)
    elif dataclasses.is_dataclass(value):
        found.update(type(value).__name__.encode())
        for field in dataclasses.fields(value):
            _feed(found, getattr(value, field.name))
    else:
        found.update(f"{value!r};".encode())
