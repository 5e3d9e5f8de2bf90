"""A replay as text and as CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.counterfactual.replay import LIMITS, Floats, Groups, Replay

_BINS = ((0.0, 0.0), (0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0), (1.0, 1.0))
"""Success rates of the printed profile: 0, then (low, high], 1 apart; the CSV has every rate."""


def text(label: str, groups: Groups, replays: Sequence[Replay], mean: tuple[Floats, Floats, Floats, Floats]) -> str:
    """Head, table of ranks, weight profile, and what it all cannot tell."""
    levels = groups.levels
    values = ", ".join(f"{v:g}" for v in levels[:4]) + (f", ... ({len(levels)} values)" if len(levels) > 4 else "")
    parts = [
        f"replay of {label}: {len(groups.steps)} steps, {len(groups.step)} groups of {groups.group_size},"
        f" rewards {values}",
        "\n".join(_aligned(_rows(replays))),
        "mean weight of a query above / below the baseline, by success rate p:",
        "\n".join(_aligned(_profile(replays, mean))),
        "what this cannot tell:",
        "\n".join(textwrap.fill(line, 110, initial_indent="  - ", subsequent_indent="    ") for line in LIMITS),
    ]
    return "\n\n".join(parts)


def _rows(replays: Sequence[Replay]) -> list[list[str]]:
    head = [
        "rank",
        "K",
        "every K in",
        "zero",
        "positive",
        "negative",
        "hard",
        "easy",
        "silent steps",
        "zero first|last",
    ]
    rows = [head]
    for r in replays:
        quarter = max(1, len(r.steps) // 4)
        rows.append(
            [str(r.rank), r.K, r.interval, _percent(r.zero.mean()), _percent(r.positive.mean()),
             _percent(r.negative.mean()), _percent(r.hard.mean()), _percent(1 - r.hard.mean()),
             f"{int(r.silent.sum())} of {len(r.steps)}",
             f"{_percent(r.zero[:quarter].mean())}|{_percent(r.zero[-quarter:].mean())}"]
        )  # fmt: skip
    return rows


def _profile(replays: Sequence[Replay], mean: tuple[Floats, Floats, Floats, Floats]) -> list[list[str]]:
    rates, share = mean[0], mean[1]
    bins = []
    for low, high in _BINS:
        inside = rates == low if low == high else (rates > low) & (rates <= high) & (rates < 1.0)
        if inside.any():
            bins.append((f"{low:g}" if low == high else f"{low:g} to {high:g}", inside))
    rows = [["p", *(name for name, _ in bins)], ["groups", *(_percent(share[inside].sum()) for _, inside in bins)]]
    sides = [("mean baseline", mean[2], mean[3]), *((f"rank {r.rank}", r.up, r.down) for r in replays)]
    for name, up, down in sides:
        cells = [f"{_mean(up, share, inside):.2f} / {_mean(down, share, inside):.2f}" for _, inside in bins]
        rows.append([name, *cells])
    return rows


def _mean(values: Floats, share: Floats, inside: NDArray[np.bool_]) -> float:
    return float(np.average(values[inside], weights=share[inside]))


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def as_csv(replays: Sequence[Replay]) -> str:
    """One row a rank and step."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["rank", "K", "step", "zero", "positive", "negative", "hard", "easy", "silent"])
    for r in replays:
        for i, step in enumerate(r.steps):
            shares = [f"{x[i]:.6g}" for x in (r.zero, r.positive, r.negative, r.hard, 1 - r.hard)]
            writer.writerow([r.rank, r.K, int(step), *shares, int(r.silent[i])])
    return out.getvalue()
