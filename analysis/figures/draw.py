"""Draws a chart with matplotlib, for print: no global state, no pyplot, fonts embedded as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.comparison.palette import GRID, INK, MUTED
from analysis.figures.chart import Axis, Bar, Chart, Curve, Dots, Heat, Layer, Panel, Rule, title_lines
from harness.errors import HarnessError, nearest
from harness.files import replacing

FORMATS = ("pdf", "svg", "png")
_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1.2, 1.4)),
    "dashdot": (0, (5, 1.6, 1.2, 1.6)),
    "longdash": (0, (10, 2.5)),
    "longdashdot": (0, (10, 2, 1.2, 2)),
}
_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 8, "axes.titlesize": 9, "axes.labelsize": 8,
    "xtick.labelsize": 7.5, "ytick.labelsize": 7.5, "legend.fontsize": 7.5, "axes.linewidth": 0.6,
    "axes.edgecolor": "#9AA5B1", "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED,
    "text.color": INK, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True, 
    "pdf.fonttype": 42, "svg.fonttype": "none",
    "svg.hashsalt": "qae", "figure.dpi": 200, "savefig.dpi": 200, "path.simplify_threshold": 0.3,
}  # fmt: skip
_HEAT = LinearSegmentedColormap.from_list("solved", ["#F4F6F8", "#BFD7EA", "#6BAED6", "#2171B5", "#08306B"])
_PANEL = (2.55, 2.05)  # inches: three panels fill a page of text


def draw(chart: Chart) -> Figure:
    """The chart as a matplotlib Figure, with one legend for all panels."""
    columns = min(chart.columns, len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    with mpl.rc_context(rc=_style()):
        width, height = _size(chart, columns, rows)
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.ravel()[len(chart.panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(grid.ravel(), chart.panels, strict=False):
            _panel(figure, axes, panel)
        handles = _handles(chart)
        if handles:
            figure.legend(
                handles=handles, loc="outside lower center", ncols=_legend_columns(handles, width),
                frameon=False, handlelength=2.4, columnspacing=1.4,
            )  # fmt: skip
        # The layout is solved once here, not again for every format.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def save(figure: Figure, stem: Path, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Writes `stem`.pdf, .svg and .png atomically; returns the paths.

    Raises:
        HarnessError: a format that is none of these.
    """
    paths = []
    for kind in formats:
        if kind not in FORMATS:
            raise HarnessError(f"figure format {kind!r}: {nearest(kind, FORMATS)}")
        path = stem.with_name(f"{stem.name}.{kind}")
        # Without a date in the file, an unchanged figure is an unchanged file.
        metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[kind]
        with mpl.rc_context(rc=_style()), replacing(path) as temporary:
            figure.savefig(temporary, format=kind, metadata=metadata)
        paths.append(path)
    return paths


def _style() -> Any:
    return _STYLE  # matplotlib's stubs list every key; a plain dict of ours is none of theirs


def _size(chart: Chart, columns: int, rows: int) -> tuple[float, float]:
    width, height = _PANEL
    width += 0.055 * max((_label_length(panel) for panel in chart.panels), default=0)
    lying = max((_categories(panel) for panel in chart.panels), default=0)
    tall = max(height, 0.19 * lying + 0.7)
    names = len({mark.name for panel in chart.panels for mark in panel.marks if not isinstance(mark, (Heat, Rule))})
    return max(3.4, width * columns + 0.2), tall * rows + 0.2 * math.ceil(names / max(1, columns)) + 0.15


def _categories(panel: Panel) -> int:
    """Rows of text on the y axis."""
    heat = max((len(mark.rows) for mark in panel.marks if isinstance(mark, Heat)), default=0)
    return heat or (len({mark.at for mark in panel.marks if isinstance(mark, Bar)}) if panel.horizontal else 0)


def _label_length(panel: Panel) -> int:
    """Characters of the longest row label on the y axis."""
    heat = [row for mark in panel.marks if isinstance(mark, Heat) for row in mark.rows]
    bars = [mark.at for mark in panel.marks if isinstance(mark, Bar)] if panel.horizontal else []
    return max(map(len, heat + bars), default=0)


def _panel(figure: Figure, axes: Axes, panel: Panel) -> None:
    for mark in panel.marks:
        if isinstance(mark, Curve):
            _curve(axes, mark)
        elif isinstance(mark, Rule):
            _rule(axes, mark)
        elif isinstance(mark, Dots):
            _dots(axes, mark)
        elif isinstance(mark, Heat):
            _heat(figure, axes, mark)
    layers = [mark for mark in panel.marks if isinstance(mark, Layer)]
    if layers:
        _stack(axes, layers)
    bars = [mark for mark in panel.marks if isinstance(mark, Bar)]
    if bars:
        _bars(axes, bars, panel)
    if panel.title:
        axes.set_title("\n".join(title_lines(panel.title)), loc="left")
    _axis(axes, panel.x, "x")
    _axis(axes, panel.y, "y")


def _curve(axes: Axes, mark: Curve) -> None:
    x, y = mark.x, np.where(np.isfinite(mark.y), mark.y, np.nan)
    axes.plot(
        x, y, color=mark.color, linestyle=_DASHES[mark.dash], linewidth=0.7 if mark.thin else 1.4,
        marker="o" if mark.points or len(x) == 1 else None, markersize=2.0 if mark.thin else 3.0,
        alpha=0.8 if mark.thin else 1.0, clip_on=not mark.points,  # a point at the bound of the axis is whole
    )  # fmt: skip
    if mark.low is not None and mark.high is not None:
        axes.fill_between(x, mark.low, mark.high, color=mark.color, alpha=0.16, linewidth=0)


def _dots(axes: Axes, mark: Dots) -> None:
    spread = None
    if mark.low is not None and mark.high is not None:
        spread = np.maximum(np.vstack([mark.y - mark.low, mark.high - mark.y]), 0.0)
    axes.errorbar(
        mark.x, mark.y, yerr=spread, fmt="o", color=mark.color, markersize=2.2 if mark.small else 4.2,
        markerfacecolor="white" if mark.hollow else mark.color, markeredgewidth=1.1 if mark.hollow else 0.0,
        elinewidth=1.0, capsize=2, zorder=3 if mark.small else 2,
    )  # fmt: skip
    axes.grid(axis="x", visible=False)


def _stack(axes: Axes, layers: list[Layer]) -> None:
    x = layers[0].x
    axes.stackplot(x, *(np.interp(x, layer.x, layer.y) for layer in layers), colors=[m.color for m in layers],
                   alpha=0.9, linewidth=0)  # fmt: skip
    if len(x) > 1:
        axes.set_xlim(x[0], x[-1])


def _bars(axes: Axes, bars: list[Bar], panel: Panel) -> None:
    places = list(dict.fromkeys(bar.at for bar in bars))
    names = list(dict.fromkeys(bar.name for bar in bars))
    grouped = not panel.dots and len({(bar.at, bar.name) for bar in bars}) > len(places)
    width = 0.72 / (len(names) if grouped else 1)
    for bar in bars:
        shift = (names.index(bar.name) - (len(names) - 1) / 2) * width if grouped else 0.0
        at = places.index(bar.at) + shift
        low = 0.0 if bar.low is None else max(bar.value - bar.low, 0.0)
        high = 0.0 if bar.high is None else max(bar.high - bar.value, 0.0)
        spread = np.array([[low], [high]]) if bar.low is not None or bar.high is not None else None
        color = bar.color if panel.dots else INK
        error: dict[str, Any] = {"ecolor": color, "elinewidth": 1.0, "capsize": 2}
        if panel.dots:
            x, y = (bar.value, at) if panel.horizontal else (at, bar.value)
            error["xerr" if panel.horizontal else "yerr"] = spread
            axes.errorbar(x, y, fmt="o", color=bar.color, markersize=4, **error)
        elif panel.horizontal:
            axes.barh(at, bar.value, width, color=bar.color, xerr=spread, error_kw=error)
        else:
            axes.bar(at, bar.value, width, color=bar.color, yerr=spread, error_kw=error)
    if panel.horizontal:
        axes.set_yticks(range(len(places)), places)
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
    else:
        longest = max(len(line) for place in places for line in place.split("\n"))
        turned = longest * len(places) > 34
        axes.set_xticks(range(len(places)), places, rotation=25 if turned else 0, ha="right" if turned else "center")
        axes.set_xlim(-0.6, len(places) - 0.4)
        axes.grid(axis="x", visible=False)


def _heat(figure: Figure, axes: Axes, mark: Heat) -> None:
    image = axes.imshow(mark.values, aspect="auto", cmap=_HEAT, vmin=0, vmax=1, interpolation="nearest")
    axes.set_yticks(range(len(mark.rows)), mark.rows)
    axes.set_xticks([])
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label=mark.label, fraction=0.03, pad=0.01)


def _rule(axes: Axes, mark: Rule) -> None:
    line = axes.axvline if mark.vertical else axes.axhline
    line(mark.value, color=MUTED, linewidth=0.8, linestyle=_DASHES["dot"], zorder=3)
    if not mark.text:
        return
    if mark.vertical:
        place, across, turn, edge, away = (mark.value, 0.98), axes.get_xaxis_transform(), 90, "top", (-1.5, 0.0)
    else:
        place, across, turn, edge, away = (0.99, mark.value), axes.get_yaxis_transform(), 0, "bottom", (0.0, 1.5)
    # On white of its own: it is read over lines and over the dark layers of a stack.
    axes.annotate(
        mark.text, place, xycoords=across, xytext=away, textcoords="offset points", rotation=turn, ha="right", va=edge,
        fontsize=6.5, color=INK, zorder=4,
        bbox={"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
    )  # fmt: skip


def _axis(axes: Axes, axis: Axis, which: str) -> None:
    # A label along the y axis has the panel's height, whatever its words.
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(axis.label if which == "x" else wrapped(axis.label))
    if axis.log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    limits = axes.set_xlim if which == "x" else axes.set_ylim
    if axis.bounds is not None:
        low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
        limits(max(low, axis.bounds[0]), min(high, axis.bounds[1]))
    if axis.low is not None:
        limits(axis.low, None)
    if axis.high is not None:
        limits(None, axis.high)
    if axis.ticks is not None:
        (axes.set_xticks if which == "x" else axes.set_yticks)(axis.ticks, axis.names)
        if axis.log:
            axes.tick_params(which="minor", labelbottom=which != "x", labelleft=which != "y")


def wrapped(label: str, width: int = 28) -> str:
    """A y label in lines that a panel has the height for."""
    return "\n".join(textwrap.wrap(label, width)) if label else label


def _handles(chart: Chart) -> list[Line2D | Patch]:
    handles: dict[str, Line2D | Patch] = {}
    for panel in chart.panels:
        if panel.horizontal and panel.dots:  # every row is named already
            continue
        for mark in panel.marks:
            if isinstance(mark, Curve) and mark.name not in handles:
                style = _DASHES[mark.dash]
                handles[mark.name] = Line2D([], [], color=mark.color, linestyle=style, linewidth=1.6, label=mark.name)
            elif isinstance(mark, Dots) and mark.name not in handles:
                handles[mark.name] = Line2D(
                    [], [], linestyle="", marker="o", color=mark.color, label=mark.name,
                    markersize=2.6 if mark.small else 4.6, markerfacecolor="white" if mark.hollow else mark.color,
                )  # fmt: skip
            elif isinstance(mark, (Layer, Bar)) and mark.name not in handles:
                handles[mark.name] = Patch(color=mark.color, label=mark.name)
    return list(handles.values())


def _legend_columns(handles: list[Line2D | Patch], width: float) -> int:
    longest = max(len(str(handle.get_label())) for handle in handles)
    return max(1, min(len(handles), int(width / (0.062 * longest + 0.55))))
