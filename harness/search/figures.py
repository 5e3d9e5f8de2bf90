"""Figures of a K search: pass@1 and entropy over what was searched, and both objectives where there are two."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from analysis.comparison.palette import INK
from analysis.figures.chart import Axis, Chart, Curve, Dots, Mark, Panel
from harness.errors import HarnessError
from harness.quantile import short_level
from harness.search import results, space
from harness.search.results import Row
from harness.search.state import SeedRun, View
from harness.search.study import Study

_MEAN, _SEED, _CUT, _FRESH = "#0072B2", "#1F2933", "#E69F00", "#009E73"
_MOST_TICKS = 8
_ASIDE = 0.22
"""How far beside their trial the fresh seeds stand, in steps of the axis."""


class _Dot(NamedTuple):
    x: float
    y: float
    text: str
    low: float = math.nan
    high: float = math.nan


def over_axis(study: Study, view: View, rows: Sequence[Row], key: str) -> Chart:
    """pass@1 over one axis, trials as rings with intervals, their seeds as dots; entropy beside.

    Raises: HarnessError where no trial has a value.
    """
    scale = _Scale(study, key)
    trials: list[_Dot] = []
    seeds: list[_Dot] = []
    cut: list[_Dot] = []
    calm: list[_Dot] = []
    alarmed: list[_Dot] = []
    for row in rows:
        x, name = scale.place(row.trial.cell[key]), f"trial {row.trial.number}"
        seeds += [_Dot(x, _value(study, run), _run(run)) for run in results.finished(row.trial.runs, study)]
        if row.interval is not None:
            found = row.interval
            told = f"{name}, {row.seeds} seed{'s' * (row.seeds != 1)}, {study.space.name(row.trial.cell)}"
            trials.append(_Dot(x, 100 * found.estimate, told, 100 * found.low, 100 * found.high))
        elif math.isfinite(row.partial):
            cut.append(_Dot(x, 100 * row.partial, f"{name}, {study.space.name(row.trial.cell)}"))
        if math.isfinite(row.entropy):
            (calm if row.interval is not None else alarmed).append(_Dot(x, row.entropy, name))
    if not trials and not cut:
        raise HarnessError("no trial has an evaluation yet")
    mean, early = "trial, mean over its seeds", "ended early"
    marks: list[Mark] = [
        *_baseline(study, view, scale), *_dots(cut, early, _CUT), *_dots(trials, mean, _MEAN, hollow=True),
        *_dots(seeds, "one seed", _SEED, small=True),
        *_dots(_fresh(study, view, key, scale), "fresh seed", _FRESH, small=True),
    ]  # fmt: skip
    panels = [Panel(x=scale.axis, y=Axis(label="pass@1 (%)"), marks=tuple(marks), title="Accuracy")]
    if calm or alarmed:
        levels: list[Mark] = [*_limits(study, scale), *_dots(alarmed, early, _CUT),
                              *_dots(calm, mean, _MEAN, hollow=True)]  # fmt: skip
        label = Axis(label="entropy (nats per token)")
        panels.append(Panel(x=scale.axis, y=label, marks=tuple(levels), title="Late entropy"))
    return Chart(
        key=f"search_{key.replace('.', '_')}", title=f"Trials over {key}", panels=tuple(panels), columns=2,
        caption=f"pass@1 is the mean of the last {study.rules.objective.last} evaluations on the validation set. 95 %"
        " intervals over seeds and problems; below three seeds over problems only, which says nothing about"
        " other seeds. Fresh seeds stand beside their trial: no finalist was chosen by them.",
    )  # fmt: skip


def objectives(study: Study, view: View, rows: Sequence[Row]) -> Chart:
    """pass@k over pass@1, one point a trial, and the finalists' fresh seeds.

    Raises: HarnessError where no trial has both.
    """
    both = [row for row in rows if row.interval is not None and math.isfinite(row.second)]
    if not both:
        raise HarnessError("no trial has both objectives yet")
    front = results.front(both)
    points: dict[bool, list[_Dot]] = {True: [], False: []}
    for row in both:
        x = 100 * row.interval.estimate if row.interval else math.nan
        told = f"trial {row.trial.number}, {study.space.name(row.trial.cell)}"
        points[row.trial.number in front].append(_Dot(x, 100 * row.second, told))
    last, k = study.rules.objective.last, study.rules.objective.pass_k
    fresh = [
        _Dot(_value(study, run), 100 * run.look.measure.second(last), f"trial {number}, {_run(run)}")
        for number in view.finalists or () for run in results.fresh(view, study, f"trial {number}")
    ]  # fmt: skip
    line = sorted(points[True])
    marks: list[Mark] = [
        Curve(x=np.array([p.x for p in line]), y=np.array([p.y for p in line]), name="no trial is better in both",
              color=_MEAN, dash="dot"),
        *_dots(points[False], "another trial is better in one and no worse in the other", "#9AA5B1"),
        *_dots(points[True], "no trial is better in both", _MEAN), *_dots(fresh, "fresh seed", _FRESH, small=True),
    ]  # fmt: skip
    axes = Axis(label="pass@1 (%)"), Axis(label=f"pass@{k} (%)")
    return Chart(
        key="search_objectives", title="Both objectives", columns=1,
        panels=(Panel(x=axes[0], y=axes[1], marks=tuple(marks)),),
        caption=f"Every trial's mean over its search seeds, each the mean of the last {last} evaluations.",
    )  # fmt: skip


class _Scale:
    """Where the values of one axis stand: numbers at their value, choices side by side."""

    def __init__(self, study: Study, key: str) -> None:
        self._axis = next(axis for axis in study.space.axes if axis.key == key)
        self._named = self._axis.kind == "categorical" and key != space.RANK
        values = self._axis.values()
        numbers = [self.place(v) for v in values] if values else [self._axis.low, self._axis.high]
        self.step = min((b - a for a, b in zip(numbers, numbers[1:], strict=False)), default=1.0) if values else 0.0
        pad = 0.6 * self.step if values else 0.04 * (numbers[-1] - numbers[0])
        self.ends = (numbers[0] / 1.2, numbers[-1] * 1.2) if self._axis.log else (numbers[0] - pad, numbers[-1] + pad)
        ticks = numbers[:: math.ceil(len(numbers) / _MOST_TICKS)] if values else None
        if self._axis.log:
            ticks = _decades(*self.ends)
        self.axis = Axis(
            label="rank, and a K of it" if key == space.RANK else key, low=self.ends[0], high=self.ends[1],
            log=self._axis.log, ticks=tuple(ticks) if ticks else None,
            names=tuple(self._name(study, i) for i in ticks) if ticks else None,
        )  # fmt: skip

    def place(self, value: object) -> float:
        """The x of a value."""
        return float(self._axis.choices.index(value)) if self._named else float(value)  # type: ignore[arg-type]

    def _name(self, study: Study, at: float) -> str:
        if self._named:
            return str(self._axis.choices[int(at)]).replace("-", "-\n", 1)
        if self._axis.key == space.RANK:
            return f"{at:g}\n{short_level(int(at), study.space.group_size)}"
        return f"{at:g}"


def _decades(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, and 2 and 5 times them where there are few."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 2, 5)):
        found = [digit * 10.0**e for e in exponents for digit in digits if low <= digit * 10.0**e <= high]
        if len(found) >= 3:
            break
    return found


def _dots(
    dots: Iterable[_Dot], name: str, color: str, *, hollow: bool = False, small: bool = False
) -> list[Dots]:  # none for nothing
    found = list(dots)
    if not found:
        return []
    x, y, low, high = (np.array([getattr(dot, field) for dot in found]) for field in ("x", "y", "low", "high"))
    spread = np.isfinite(low).any()
    return [
        Dots(x=x, y=y, name=name, color=color, low=low if spread else None, high=high if spread else None,
             texts=tuple(dot.text for dot in found), hollow=hollow, small=small)
    ]  # fmt: skip


def _baseline(study: Study, view: View, scale: _Scale) -> list[Curve]:
    runs = results.finished(view.groups.get("mean", ()), study)
    if not runs:
        return []
    level = sum(_value(study, run) for run in runs) / len(runs)
    return [_line(scale, level, f"mean baseline, {len(runs)} run{'s' * (len(runs) != 1)}", "dash")]


def _limits(study: Study, scale: _Scale) -> list[Curve]:
    limits = study.rules.constraints
    bounds = [bound for bound in (limits.entropy_low, limits.entropy_high) if bound is not None]
    return [_line(scale, bound, "entropy must lie between", "dot") for bound in bounds]


def _line(scale: _Scale, level: float, name: str, dash: str) -> Curve:
    return Curve(x=np.array(scale.ends), y=np.array([level, level]), name=name, color=INK, dash=dash, thin=True)


def _fresh(study: Study, view: View, key: str, scale: _Scale) -> list[_Dot]:
    dots = []
    for number in view.finalists or ():
        trial = next(t for t in view.trials if t.number == number)
        at = scale.place(trial.cell[key]) + _ASIDE * scale.step
        dots += [_Dot(at, _value(study, run), _run(run)) for run in results.fresh(view, study, f"trial {number}")]
    return dots


def _value(study: Study, run: SeedRun) -> float:
    return 100 * run.look.measure.value(study.rules.objective.last)


def _run(run: SeedRun) -> str:
    return f"seed {run.seed} ({run.run})"
