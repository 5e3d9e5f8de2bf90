"""A chart as a card of the page: legend, plots, caption and notes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.figures.chart import Chart
from analysis.report import interactive
from analysis.report.html import items, legend_entry, text
from harness.errors import HarnessError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Card:
    """What a figure became: a chart, or the reason why there is none."""

    title: str
    chart: Chart | None
    reason: str = ""


def build(title: str, make: Callable[[], Chart]) -> Card:
    """Makes a chart; a missing metric becomes a card that names it and the nearest that exist."""
    try:
        return Card(title, make())
    except HarnessError as error:
        log.info("%s is not drawn: %s", title, error)
        return Card(title, None, str(error))


def html(chart: Chart) -> str:
    """The card's HTML; its plots are filled by the page's script."""
    tools = '<button type="button" class="log" aria-pressed="false">log axis</button>' if chart.log else ""
    files = "".join(f'<a href="figures/{text(chart.key)}.{kind}">{kind.upper()}</a>' for kind in ("pdf", "svg", "png"))
    legend = "".join(legend_entry(*entry) for entry in interactive.legend(chart))
    columns = min(chart.columns, len(chart.panels), 4)
    plots = "".join(_plot(chart.key, i, interactive.height(panel)) for i, panel in enumerate(chart.panels))
    notes = list(chart.notes) + _thinned(chart)
    return (
        f'<div class="card" id="{text(chart.key)}"><div class="chart-head"><h3>{text(chart.title)}</h3>'
        f'<span class="tools">{tools}{files}</span></div><div class="legend">{legend}</div>'
        f'<div class="plots c{columns}">{plots}</div><p class="caption">{text(chart.caption)}</p>'
        + "".join(f'<p class="note">{text(note)}</p>' for note in notes)
        + "</div>"
    )


def absent(cards: Sequence[Card]) -> str:
    """What could not be drawn, and why; empty for nothing."""
    if not cards:
        return ""
    rows = items(f"<b>{text(card.title)}</b>: {text(card.reason)}" for card in cards)
    return f'<div class="card absent"><h3>Not drawn</h3>{rows}</div>'


def data(cards: Sequence[Card]) -> str:
    """The plots of all cards as JSON that is safe inside a script element."""
    plots = {card.chart.key: interactive.plots(card.chart) for card in cards if card.chart is not None}
    return json.dumps(plots, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _plot(key: str, number: int, height: int | None) -> str:
    style = "" if height is None else f' style="height:{height}px"'
    return f'<div class="plot" data-chart="{text(key)}" data-panel="{number}"{style}></div>'


def _thinned(chart: Chart) -> list[str]:
    most = max((interactive.stride(panel) for panel in chart.panels), default=1)
    return [f"lines on this page show one point in {most}; the files hold all"] if most > 1 else []
