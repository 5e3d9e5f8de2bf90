"""What `plan` prints: a line for each point of the grid."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from harness.config.grid import Sweep
from harness.planning.plan import Planned


def plan(sweep: Sweep, entries: Sequence[Planned], hours: Mapping[str, str] | None = None) -> str:
    """One line a grid point: what would be done, which run, what varies, what it costs (`hours`, by run), and why."""
    noun = ("point" if sweep.name else "run") + ("" if len(entries) == 1 else "s")
    lines = [f"sweep {sweep.name}: {len(entries)} {noun}" if sweep.name else f"{len(entries)} {noun}"]
    if sweep.question:
        lines += textwrap.wrap(sweep.question, 100, initial_indent="  ", subsequent_indent="  ")
    if sweep.feeds:
        lines.append(f"  feeds: {sweep.feeds}")
    costs = {} if hours is None else hours
    rows = [(e.action, e.id, _named(e), *([costs.get(e.id, "").rjust(9)] if costs else []), e.reason) for e in entries]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] if rows else []
    lines += [""] + [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    return "\n".join(lines)


_IN_LABEL = ("baseline", "model", "seed")


def _named(entry: Planned) -> str:
    """The label, and what varies that it does not say."""
    rest = [text for text in entry.varied if text.partition("=")[0].partition(".")[0] not in _IN_LABEL]
    return " ".join([entry.label, *rest])
