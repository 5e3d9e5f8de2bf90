"""A chart as plotly traces and layouts, one plot a panel, in plain dicts: no plotly objects, whose checks are
slow.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.comparison.palette import GRID, INK, MUTED
from analysis.figures.chart import Axis, Bar, Chart, Curve, Dots, Heat, Layer, Panel, Rule, title_lines

MAX_POINTS = 50_000
"""Points of one panel above which lines are thinned, with a note; the PDF and the files keep all."""
_HEAT = [[0.0, "#F4F6F8"], [0.25, "#BFD7EA"], [0.5, "#6BAED6"], [0.75, "#2171B5"], [1.0, "#08306B"]]


def plots(chart: Chart) -> list[dict[str, Any]]:
    """One {"data": traces, "layout": layout} a panel, ready for `Plotly.newPlot`."""
    return [{"data": _traces(panel), "layout": _layout(panel)} for panel in chart.panels]


def height(panel: Panel) -> int | None:
    """Pixels that a panel of rows needs; None where the page's own height does."""
    heat = max((len(mark.rows) for mark in panel.marks if isinstance(mark, Heat)), default=0)
    rows = heat or (len({mark.at for mark in panel.marks if isinstance(mark, Bar)}) if panel.horizontal else 0)
    return max(200, 23 * rows + 100) if rows else None


def legend(chart: Chart) -> list[tuple[str, str, str]]:
    """(name, colour, dash) of every arm or layer in the chart, in order of first appearance."""
    seen: dict[str, tuple[str, str, str]] = {}
    for panel in chart.panels:
        for mark in panel.marks:
            if isinstance(mark, (Curve, Layer, Bar, Dots)) and mark.name not in seen:
                seen[mark.name] = (mark.name, mark.color, mark.dash if isinstance(mark, Curve) else "fill")
    return list(seen.values())


def stride(panel: Panel) -> int:
    """Every how manyth point of a panel's lines is drawn: 1 unless it holds more than `MAX_POINTS`."""
    points = sum(len(mark.x) for mark in panel.marks if isinstance(mark, (Curve, Layer)))
    return max(1, -(-points // MAX_POINTS))


def packed(values: NDArray[Any]) -> dict[str, str]:
    """An array as plotly.js reads it without parsing: little-endian float32 in base64, NaN a gap."""
    data = np.where(np.isfinite(values), values, np.nan).astype("<f4")
    return {"dtype": "f4", "bdata": base64.b64encode(data.tobytes()).decode("ascii")}


def _along(x: NDArray[Any]) -> dict[str, Any]:
    """The x values of a line: first and distance where they are regular, as steps mostly are, else all of
    them.
    """
    gaps = np.diff(x)
    if len(gaps) and np.isfinite(gaps).all() and np.ptp(gaps) == 0:
        return {"x0": float(x[0]), "dx": float(gaps[0])}
    return {"x": packed(x)}


def _traces(panel: Panel) -> list[dict[str, Any]]:
    every = stride(panel)
    traces: list[dict[str, Any]] = []
    for mark in panel.marks:
        if isinstance(mark, Curve):
            traces += _curve(mark, every)
        elif isinstance(mark, Layer):
            traces.append(_layer(mark, every))
        elif isinstance(mark, Dots):
            traces.append(_dots(mark))
        elif isinstance(mark, Heat):
            traces.append(_heat(mark))
    bars = [mark for mark in panel.marks if isinstance(mark, Bar)]
    for name in dict.fromkeys(bar.name for bar in bars):
        traces.append(_bars([bar for bar in bars if bar.name == name], panel))
    return traces


def _curve(mark: Curve, every: int) -> list[dict[str, Any]]:
    x, y = mark.x[::every], mark.y[::every]
    width = 1.3 if mark.thin else 2.2
    line: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if mark.points or len(x) < 2 else "lines",
        **_along(x),
        "y": packed(y),
        "name": mark.name,
        "showlegend": False,
        "line": {"color": mark.color, "width": width, "dash": mark.dash},
        "marker": {"size": 4 if mark.thin else 6, "color": mark.color},
        "opacity": 0.75 if mark.thin else 1.0,
        "cliponaxis": not mark.points,  # a point at the bound of the axis is whole
        "hovertemplate": f"%{{y:.4g}}<extra>{_safe(mark.name)}"
        + (f"<br>{_safe(mark.detail)}" if mark.detail else "")
        + "</extra>",
    }
    if mark.low is None or mark.high is None:
        return [line]
    low, high = mark.low[::every], mark.high[::every]
    pieces_x: list[NDArray[Any]] = []
    pieces_y: list[NDArray[Any]] = []
    for part in _finite_runs(np.isfinite(low) & np.isfinite(high)):
        pieces_x += [x[part], x[part][::-1], np.array([np.nan])]
        pieces_y += [high[part], low[part][::-1], np.array([np.nan])]
    if not pieces_x:
        return [line]
    band = {
        "type": "scatter",
        "mode": "lines",
        "x": packed(np.concatenate(pieces_x)),
        "y": packed(np.concatenate(pieces_y)),
        "name": mark.name,
        "showlegend": False,
        "hoverinfo": "skip",
        "fill": "toself",
        "fillcolor": _tint(mark.color, 0.16),
        "line": {"width": 0, "color": mark.color},
    }
    return [band, line]


def _layer(mark: Layer, every: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        **_along(mark.x[::every]),
        "y": packed(mark.y[::every]),
        "name": mark.name,
        "showlegend": False,
        "stackgroup": "all",
        "fillcolor": _tint(mark.color, 0.9),
        "line": {"width": 0.5, "color": mark.color},
        "hovertemplate": f"%{{y:.1f}} %<extra>{_safe(mark.name)}</extra>",
    }


def _bars(bars: Sequence[Bar], panel: Panel) -> dict[str, Any]:
    across, along = ("y", "x") if panel.horizontal else ("x", "y")
    values, name = [bar.value for bar in bars], _safe(bars[0].name)
    trace: dict[str, Any] = {
        "type": "scatter" if panel.dots else "bar",
        across: [_label(bar.at) for bar in bars],
        along: values,
        "name": bars[0].name,
        "showlegend": False,
        "marker": {"color": [bar.color for bar in bars]},
        "customdata": [_safe(bar.text) for bar in bars],
        "hovertemplate": f"%{{{across}}}: %{{{along}:.4g}} %{{customdata}}<extra>{name}</extra>",
    }
    if panel.dots:
        trace["mode"] = "markers"
        trace["marker"]["size"] = 10
    if panel.horizontal and not panel.dots:
        trace["orientation"] = "h"
    if any(bar.low is not None for bar in bars):
        trace[f"error_{along}"] = {
            "type": "data",
            "symmetric": False,
            "color": MUTED if not panel.dots else bars[0].color,
            "thickness": 1.6,
            "width": 4,
            "array": [0.0 if bar.high is None else bar.high - bar.value for bar in bars],
            "arrayminus": [0.0 if bar.low is None else bar.value - bar.low for bar in bars],
        }
    return trace


def _dots(mark: Dots) -> dict[str, Any]:
    size = 6 if mark.small else 11
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": packed(mark.x),
        "y": packed(mark.y),
        "name": mark.name,
        "showlegend": False,
        "marker": {
            "symbol": "circle-open" if mark.hollow else "circle",
            "size": size,
            "color": mark.color,
            "line": {"width": 2 if mark.hollow else 0},
        },
        "customdata": [_safe(text) for text in mark.texts],
        "hovertemplate": f"%{{y:.4g}} %{{customdata}}<extra>{_safe(mark.name)}</extra>",
    }
    if mark.low is not None and mark.high is not None:
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "color": mark.color,
            "thickness": 1.6,
            "width": 4,
            "array": packed(mark.high - mark.y),
            "arrayminus": packed(mark.y - mark.low),
        }
    return trace


def _heat(mark: Heat) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "z": [[None if np.isnan(v) else round(float(v), 4) for v in row] for row in mark.values],
        "x": [_safe(name) for name in mark.columns],
        "y": [_safe(name) for name in mark.rows],
        "colorscale": _HEAT,
        "zmin": 0,
        "zmax": 1,
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"title": {"text": mark.label, "side": "right"}, "thickness": 10, "outlinewidth": 0},
        "hovertemplate": "%{y}<br>%{x}: %{z:.3f}<extra></extra>",
    }


def _layout(panel: Panel) -> dict[str, Any]:
    lines = sum(isinstance(mark, Curve) for mark in panel.marks)
    dots = any(isinstance(mark, Dots) for mark in panel.marks)
    heat = any(isinstance(mark, Heat) for mark in panel.marks)
    titles = title_lines(panel.title, 44)
    title = "<br>".join(map(_safe, titles))
    layout: dict[str, Any] = {
        "title": {
            "text": f"<b>{title}</b>",
            "font": {"size": 13, "color": INK},
            "x": 0.01,
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 4 + 8 * len(titles)},  # plotly centres several lines where it puts one
        }
        if panel.title
        else None,
        "margin": {"l": 62, "r": 16, "t": 24 + 16 * len(titles) if titles else 16, "b": 46},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "inherit", "size": 12, "color": INK},
        "hovermode": "x unified" if 0 < lines <= 16 and not dots else "closest",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#B4BDC7", "activecolor": INK},
        # Without a colour of its own the box is as transparent as the page's plots are.
        "hoverlabel": {"font": {"size": 11}, "namelength": -1, "bgcolor": "rgba(255,255,255,0.95)"},
        "xaxis": _axis(panel.x) | ({"unifiedhovertitle": {"text": f"{_safe(panel.x.label)} %{{x}}"}} if lines else {}),
        "yaxis": _axis(panel.y),
        "showlegend": False,
        "bargap": 0.35,
        "shapes": [],
        "annotations": [],
    }
    if panel.horizontal or heat:
        # Every row has its label, in the order of the chart; plotly would group rows by trace and drop
        # labels.
        rows = list(dict.fromkeys(_label(mark.at) for mark in panel.marks if isinstance(mark, Bar)))
        layout["yaxis"] |= {"automargin": True, "autorange": "reversed", "showgrid": False}
        layout["yaxis"] |= {"type": "category", "dtick": 1}
        layout["yaxis"] |= {"categoryorder": "array", "categoryarray": rows} if rows else {}
        layout["yaxis"].pop("range", None)
    if any(isinstance(mark, Bar) for mark in panel.marks) and not panel.horizontal:
        places = list(dict.fromkeys(_label(mark.at) for mark in panel.marks if isinstance(mark, Bar)))
        layout["xaxis"] |= {"automargin": True, "showgrid": False, "type": "category"}  # else "4" and "16" are numbers
        layout["xaxis"] |= {"categoryorder": "array", "categoryarray": places}
    if dots:
        layout["xaxis"] |= {"automargin": True, "showgrid": False}
    if heat:
        layout["xaxis"] |= {"showticklabels": False, "showgrid": False, "ticks": ""}
    for mark in panel.marks:
        if isinstance(mark, Rule):
            turned = {"textangle": -90, "yanchor": "top", "xanchor": "right"} if mark.vertical else {}
            across, along = ("y", "x") if mark.vertical else ("x", "y")
            layout["shapes"].append(
                {
                    "type": "line",
                    f"{across}ref": "paper",
                    f"{across}0": 0,
                    f"{across}1": 1,
                    f"{along}0": mark.value,
                    f"{along}1": mark.value,
                    "line": {"color": MUTED, "width": 1, "dash": "dot"},
                    "layer": "above",
                }
            )
            if mark.text:
                layout["annotations"].append(
                    {
                        f"{across}ref": "paper",
                        across: 1,
                        along: mark.value,
                        "text": _safe(mark.text),
                        "showarrow": False,
                        "xanchor": "right",
                        "yanchor": "bottom",
                        "font": {"size": 10, "color": INK},
                        "bgcolor": "rgba(255,255,255,0.75)",
                        **turned,
                    }
                )
    return layout


def _axis(axis: Axis) -> dict[str, Any]:
    found: dict[str, Any] = {
        "title": {"text": _safe(axis.label), "font": {"size": 12, "color": MUTED}, "standoff": 8},
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": "#C5CBD3",
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": "#C5CBD3",
        "tickfont": {"size": 11, "color": MUTED},
        "type": "log" if axis.log else None,
        "exponentformat": "e" if axis.log else None,
    }
    if axis.bounds is not None:
        found["autorangeoptions"] = {"clipmin": axis.bounds[0], "clipmax": axis.bounds[1]}
    if axis.low is not None and axis.high is not None:
        found["range"] = [float(np.log10(end)) for end in (axis.low, axis.high)] if axis.log else [axis.low, axis.high]
    elif axis.low is not None:
        found["rangemode"] = "tozero" if axis.low == 0 else "normal"
    if axis.ticks is not None:
        found |= {"tickmode": "array", "tickvals": list(axis.ticks)}
        if axis.names is not None:
            found["ticktext"] = ["<br>".join(map(_safe, name.split("\n"))) for name in axis.names]
    return {key: value for key, value in found.items() if value is not None}


def _finite_runs(finite: NDArray[np.bool_]) -> list[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], finite.astype(np.int8), [0]))))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _tint(color: str, alpha: float) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def _label(place: str) -> str:
    return _safe(place).replace("\n", "<br>")


def _safe(text: str) -> str:
    """Plotly renders a subset of HTML in labels: names from a config must not become tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
