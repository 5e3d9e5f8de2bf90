"""What `plan` and `why` print."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from harness.plan import Planned
from harness.signature import differences
from harness.sweep import Sweep


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


def why(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """What differs between the specs of two runs: what decides their science, then everything else."""
    lines = [f"{a['id']}  {a['label']}", f"{b['id']}  {b['label']}", ""]
    science = differences(a["signature"], b["signature"])
    lines.append("decides the science:" if science else "the same experiment: nothing that decides the science differs")
    lines += _table(science)
    rest = [
        (f"{key}.{name}", before, after)
        for key in ("config", "provenance")
        for name, before, after in differences(a[key], b[key])
        if not any(name == s or s.endswith(f".{name}") or name.endswith(f".{s}") for s, _, _ in science)
    ]
    if rest:
        lines += ["", "differs too, without deciding:", *_table(rest)]
    return "\n".join(lines)


def _table(rows: Sequence[tuple[str, Any, Any]]) -> list[str]:
    if not rows:
        return []
    width = max(len(name) for name, _, _ in rows)
    left = max(len(str(before)) for _, before, _ in rows)
    return [f"  {name:<{width}}  {before!s:<{left}}  ->  {after}" for name, before, after in rows]
