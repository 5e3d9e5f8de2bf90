"""The figure of a replay: what every rank would have made of a run's groups, over training and over p."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.comparison import palette
from analysis.counterfactual.replay import LIMITS, Replay
from analysis.figures.chart import Axis, Chart, Curve, Floats, Panel

_STEP = Axis(label="training step")
_RATE = Axis(label="success rate p of the query", low=0.0, high=1.0)
_MEAN = "#D55E00"


def chart(label: str, replays: Sequence[Replay], mean: tuple[Floats, Floats, Floats, Floats]) -> Chart:
    """Shares over steps, and weights over p with the mean baseline beside.

    Args:
        label: of the run.
        replays: one a rank.
        mean: as `analysis.counterfactual.replay.mean_profile` gives it.
    """
    styles = palette.assign([("qae", replay.K, "both") for replay in replays])
    panels = []
    for title, pick in (
        ("Zero advantage", lambda r: r.zero), ("Positive advantage", lambda r: r.positive),
        ("Negative advantage", lambda r: r.negative), ("Hard queries", lambda r: r.hard),
    ):  # fmt: skip
        unit = "groups (%)" if title == "Hard queries" else "responses (%)"
        curves = tuple(
            Curve(x=r.steps.astype(float), y=100.0 * pick(r), name=_name(r), color=color, dash=dash)
            for r, (color, dash) in zip(replays, styles, strict=True)
        )
        panels.append(Panel(x=_STEP, y=Axis(label=unit, low=0.0, high=100.0), marks=curves, title=title))
    for title, side in (("Weight above the baseline", 2), ("Weight below it", 3)):
        lines = [
            Curve(x=r.rates, y=(r.up, r.down)[side - 2], name=_name(r), color=color, dash=dash, points=True)
            for r, (color, dash) in zip(replays, styles, strict=True)
        ]
        lines.append(Curve(x=mean[0], y=mean[side], name="mean baseline", color=_MEAN, dash="dot", points=True))
        panels.append(Panel(x=_RATE, y=Axis(label="mean weight of a query", low=0.0), marks=tuple(lines), title=title))
    return Chart(
        key="replay", title=f"Replay of {label}", panels=tuple(panels), columns=3,
        caption="Computed from the run's own rewards, without training. Weights: sum of |R - b| / (G std) on one side"
        " of the baseline, averaged over the groups of that success rate.",
        notes=LIMITS,
    )  # fmt: skip


def _name(replay: Replay) -> str:
    return f"rank {replay.rank} (K={replay.K})"
