"""Figures of a K search: pass@1 and entropy over what was searched."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import searching
from analysis.chart import Axis, Bar, Chart, Panel, Rule
from analysis.searching import Row
from harness.errors import HarnessError
from harness.search import space
from harness.search.state import View
from harness.search.study import Study

_MEAN, _SEED, _CUT, _FRESH = "#0072B2", "#9AA5B1", "#E69F00", "#009E73"


def over_axis(study: Study, view: View, rows: Sequence[Row], key: str) -> Chart:
    """pass@1 over one axis, trials as dots with intervals, their seeds as grey dots; entropy beside.

    Raises: HarnessError where no trial has a value.
    """
    ordered = sorted(rows, key=lambda row: _order(row.trial.cell[key]))
    last = study.rules.objective.last
    marks: list[Bar | Rule] = []
    entropies: list[Bar | Rule] = []
    for row in ordered:
        at = _place(study, key, row.trial.cell[key])
        for run in searching.finished(row.trial.runs, study):
            value = 100 * run.look.measure.value(last)
            marks.append(Bar(at=at, value=value, name="one seed", color=_SEED, text=f"seed {run.seed} ({run.run})"))
        if row.interval is not None:
            found = row.interval
            marks.append(
                Bar(at=at, value=100 * found.estimate, low=100 * found.low, high=100 * found.high,
                    name="trial, mean over its seeds", color=_MEAN, text=f"trial {row.trial.number}, {row.seeds} seeds")
            )  # fmt: skip
        elif math.isfinite(row.partial):
            marks.append(
                Bar(at=at, value=100 * row.partial, name="ended early", color=_CUT, text=f"trial {row.trial.number}")
            )
        if math.isfinite(row.entropy):
            color, name = (_CUT, "ended early") if row.interval is None else (_MEAN, "trial, mean over its seeds")
            entropies.append(Bar(at=at, value=row.entropy, name=name, color=color, text=f"trial {row.trial.number}"))
    if not marks:
        raise HarnessError("no trial has an evaluation yet")
    marks += _fresh(study, view, key)
    baseline = searching.finished(view.groups.get("mean", ()), study)
    if baseline:
        level = 100 * sum(r.look.measure.value(last) for r in baseline) / len(baseline)
        marks.append(Rule(value=level, text=f"mean baseline, {len(baseline)} runs"))
    limits = study.rules.constraints
    for bound, text in ((limits.entropy_low, "lowest allowed"), (limits.entropy_high, "highest allowed")):
        if bound is not None and entropies:
            entropies.append(Rule(value=bound, text=text))
    label = "rank (a K of it)" if key == space.RANK else key
    panels = [Panel(x=Axis(label=label), y=Axis(label="pass@1 (%)"), marks=tuple(marks), title="Accuracy", dots=True)]
    if any(isinstance(mark, Bar) for mark in entropies):
        panels.append(
            Panel(x=Axis(label=label), y=Axis(label="entropy (nats per token)"), marks=tuple(entropies),
                  title="Late entropy", dots=True)
        )  # fmt: skip
    return Chart(
        key=f"search_{key.replace('.', '_')}", title=f"Trials over {key}", panels=tuple(panels), columns=2,
        caption=f"pass@1 is the mean of the last {last} evaluations on the validation set. 95 % intervals: bootstrap"
        " over seeds and problems; below three seeds over problems only, which says nothing about other seeds.",
    )  # fmt: skip


def _fresh(study: Study, view: View, key: str) -> list[Bar]:
    bars = []
    for number in view.finalists or ():
        trial = next(t for t in view.trials if t.number == number)
        at = _place(study, key, trial.cell[key])
        for run in searching.fresh(view, study, f"trial {number}"):
            value = 100 * run.look.measure.value(study.rules.objective.last)
            bars.append(
                Bar(at=at, value=value, name="fresh seed", color=_FRESH, text=f"seed {run.seed} ({run.run})")
            )  # fmt: skip
    return bars


def _place(study: Study, key: str, value: object) -> str:
    if key == space.RANK:
        from harness.quantile import short_level

        return f"{value} (K {short_level(int(str(value)), study.space.group_size)})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _order(value: object) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value)
