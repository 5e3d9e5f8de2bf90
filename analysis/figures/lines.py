"""Marks shared by the figures over training steps."""

from __future__ import annotations

import numpy as np

from analysis.comparison.ablation import Study
from analysis.comparison.arms import Arm
from analysis.comparison.curves import Curves
from analysis.figures.chart import Axis, Curve, Panel, Rule

MOST_PANELS = 12
"""Arms that a figure with a panel an arm shows."""
STEP = Axis(label="training step")
BAND_NOTE = (
    "Lines are means over seeds with pointwise 95 % intervals (Student's t) where three seeds or more"
    " have a value; an arm with fewer seeds has a thin line a seed."
)


def marks(
    arm: Arm,
    curves: Curves | None,
    *,
    points: bool = False,
    low: float | None = None,
    high: float | None = None,
) -> tuple[Curve, ...]:
    """An arm's mean with its band where there are three seeds or more, otherwise one thin line a seed.

    `low` and `high` are bounds of the quantity itself: a band does not leave them.
    """
    if curves is None:
        return ()
    steps = curves.steps.astype(np.float64)
    if curves.has_band:
        seen = np.isfinite(curves.values).any(axis=0)
        _, lower, upper = curves.band()
        if low is not None or high is not None:
            lower, upper = np.clip(lower, low, high), np.clip(upper, low, high)
        return (
            Curve(
                x=steps[seen], y=curves.mean()[seen], low=lower[seen], high=upper[seen], name=arm.legend,
                color=arm.color, dash=arm.dash, points=points, detail=f"mean of {len(curves.names)} seeds",
            ),
        )  # fmt: skip
    return tuple(
        Curve(
            x=steps[seen],
            y=row[seen],
            name=arm.legend,
            color=arm.color,
            dash=arm.dash,
            thin=True,
            points=points,
            detail=name,
        )
        for row, name in zip(curves.values, curves.names, strict=True)
        for seen in [~np.isnan(row)]
    )


def over_steps(
    study: Study,
    metric: str,
    label: str,
    *,
    factor: float = 1.0,
    title: str = "",
    low: float | None = None,
    high: float | None = None,
    rules: tuple[Rule, ...] = (),
) -> Panel:
    """One panel of a logged metric, every arm in its colour.

    Raises:
        HarnessError: no run logged it; the text names the nearest metrics.
    """
    study.require(metric)
    curves = [mark for arm in study.arms for mark in marks(arm, study.curves(arm, metric, factor), low=low, high=high)]
    return Panel(x=STEP, y=Axis(label=label, low=low, high=high), marks=(*rules, *curves), title=title)


def left_out(study: Study, most: int = MOST_PANELS) -> tuple[str, ...]:
    """A note where a figure with a panel an arm does not have room for all arms."""
    over = len(study.arms) - most
    return (f"the first {most} arms; {over} more need a filter or another `by`",) if over > 0 else ()


def absent(study: Study, *metrics: str) -> tuple[str, ...]:
    """A note for every metric that some runs never logged; runs that logged nothing at all have their own
    warning.
    """
    notes = []
    for metric in metrics:
        parts = []
        for arm in study.arms:
            logging = [run for run in arm.runs if run.metrics]
            missing = sum(not run.has(metric) for run in logging)
            if missing:
                parts.append(f"{missing} of {len(logging)} runs of {arm.label}")
        if parts:
            notes.append(f"{metric} was never logged by {', '.join(parts)}")
    return tuple(notes)
