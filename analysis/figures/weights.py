"""How much a query weighs, by its success rate (Fig. 4 middle and right), over where the sweep's own queries
lie.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from analysis.comparison.ablation import Study
from analysis.comparison.arms import Arm
from analysis.figures.chart import Axis, Chart, Curve, Panel, Rule
from analysis.run import Run
from analysis.sources import outcomes, parquet
from harness import quantile
from harness.errors import HarnessError

FILES = 8
"""Most training steps of a run from which success rates are counted, spread evenly over the run."""
MOST_FILES = 200
"""Of all runs together, but never fewer than 2 a run."""
_GRID = 200
_HIGHEST = 4.0  # of the weight axis: sqrt(p / (1 - p)) has no bound where a mask leaves it
_RATE = Axis(label="success rate p of the query", low=0.0, high=1.0)


def query_weights(study: Study) -> Chart:
    """Weights of successes and of failures over p (Prop. 4.1), and the sweep's own histogram of p beneath."""
    positive: list[Curve] = []
    negative: list[Curve] = []
    notes: list[str] = []
    seen: set[tuple[object, ...]] = set()
    for arm in study.arms:
        run = arm.runs[0]
        setting = tuple(run.get(f"baseline.{key}", None) for key in ("name", "K", "mask", "norm_by_std"))
        found = weights(run)
        if found is None:
            notes.append(f"{arm.label}: the weight of baseline {setting[0]!r} is not known")
        elif setting not in seen:
            seen.add(setting)
            p, sides = found[0], found[1:]
            for side, curves in zip(sides, (positive, negative), strict=True):
                curves.append(Curve(x=p, y=side, name=arm.legend, color=arm.color, dash=arm.dash))
    if not positive:
        raise HarnessError("query weights: no run says its baseline; runs of the harness have baseline.name in config")
    gates = _gates(study)
    highest = max(float(curve.y.max()) for curve in (*positive, *negative))
    label = Axis(label="weight of the query", low=0.0, high=_HIGHEST if highest > _HIGHEST else None)
    panels = [
        Panel(x=_RATE, y=label, marks=(*gates, *positive), title="Weight of successes"),
        Panel(x=_RATE, y=label, marks=(*gates, *negative), title="Weight of failures"),
    ]
    steps = max(2, min(FILES, MOST_FILES // len(study.runs)))
    counted = [(arm, rates) for arm in study.arms if (rates := success_rates(arm, steps)) is not None]
    if counted:
        bars = [_histogram(arm, rates) for arm, rates in counted]
        share = Axis(label="share of groups (%)", low=0.0)
        panels.append(Panel(x=_RATE, y=share, marks=(*gates, *bars), title="Groups of this sweep"))
    else:
        notes.append("no training outcomes: the histogram of success rates is left out")
    return Chart(
        key="query_weights", title="Query weight over the success rate", panels=tuple(panels),
        caption="Weights of the objective by Prop. 4.1; a dotted line marks 1 - K, where QAE's gate lies. Groups are"
        f" counted at up to {steps} steps of every run, spread evenly; p = 0 and p = 1 give no gradient.",
        notes=tuple(notes),
    )  # fmt: skip


def weights(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(p, weight of successes, weight of failures) under the run's baseline; None for a baseline not in Prop.
    4.1.

    The weight of a side is its share of the group times its advantage: without the division by the standard
    deviation it is smaller by sqrt(p (1 - p)).
    """
    name = run.get("baseline.name", None)
    grid = [Fraction(i, _GRID) for i in range(1, _GRID)]
    p = np.array([float(rate) for rate in grid])
    spread = np.sqrt(p * (1 - p))
    if name == "qae":
        K, mask = run.K, run.get("baseline.mask", None) or "both"
        if K is None:
            return None
        sides = np.array([quantile.quantile_weights(rate, K, mask) for rate in grid])
        scale = spread if run.get("baseline.norm_by_std", True) is False else np.ones_like(p)
        return p, sides[:, 0] * scale, sides[:, 1] * scale
    if name == "mean":
        return p, spread, spread
    if name == "mean_no_std":
        return p, spread**2, spread**2
    if name == "rloo":  # the mean of the others: the advantage grows by G / (G - 1)
        G = run.get("recipe.group_size", None)
        return None if G is None else (p, spread**2 * G / (G - 1), spread**2 * G / (G - 1))
    return None


def success_rates(arm: Arm, steps: int = FILES) -> np.ndarray | None:
    """Success rates of the groups of up to `steps` training steps of every run; None without outcome files."""
    rates = []
    for run in arm.runs:
        files = [path for _, path in outcomes.files(run, "train")]
        for i in sorted({round(x) for x in np.linspace(0, len(files) - 1, steps)}) if files else []:
            try:
                table = parquet.read(files[i], ["group", "accuracy"])
            except parquet.Damaged:
                continue  # a damaged file is among the report's warnings; the others still count
            grouped = table.group_by("group", use_threads=False).aggregate([("accuracy", "mean")])
            rates.append(np.clip(grouped["accuracy_mean"].drop_null().to_numpy(), 0.0, 1.0))
    return np.concatenate(rates) if rates else None


def _histogram(arm: Arm, rates: np.ndarray) -> Curve:
    """Share of the arm's groups at each success rate: one bin a count of successes, at most 20."""
    G = arm.runs[0].get("recipe.group_size", None)
    bins = int(G) if G is not None and int(G) <= 20 else 20
    counts = np.bincount(np.rint(rates * bins).astype(np.int64), minlength=bins + 1)
    return Curve(
        x=np.arange(bins + 1) / bins, y=100.0 * counts / counts.sum(), name=arm.legend, color=arm.color, dash=arm.dash,
        points=True, detail=f"{counts.sum()} groups",
    )  # fmt: skip


def _gates(study: Study) -> list[Rule]:
    levels = sorted({run.K for run in study.runs if run.K is not None})
    return [Rule(value=1 - K, vertical=True, text=f"K={K:g}") for K in levels]
