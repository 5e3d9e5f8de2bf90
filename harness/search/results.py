"""What a K search found, with intervals: trials, winner, differences, hours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics import difference, estimate, multiple
from analysis.statistics.components import Floats
from analysis.statistics.difference import Difference
from analysis.statistics.estimate import Interval
from harness.search.state import Measure, SeedRun, Trial, View
from harness.search.study import Study


@dataclass(frozen=True, slots=True)
class Row:
    """One trial."""

    trial: Trial
    name: str
    seeds: int
    """Finished runs with a value."""
    interval: Interval | None
    """pass@1 in [0, 1] over its search seeds; None without a finished run."""
    partial: float
    """pass@1 of the last evaluations of a run that did not finish; NaN where there are none."""
    second: float
    """pass@k in [0, 1] over its search seeds; NaN without a finished run, or where k is more than the samples."""
    entropy: float
    """Nats a token over the last part of training, mean over its runs."""
    hours: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The winner on its fresh seeds, and against what it is compared with."""

    trial: Trial
    interval: Interval | None
    """None where no fresh seed has a value."""
    against: tuple[tuple[str, Difference, Interval], ...]
    """(name, winner minus it, its own interval) for the mean baseline and K = 0.4, all on fresh seeds."""

    @property
    def adjusted(self) -> list[float | None]:
        """p of each comparison after Holm; None where there is no test."""
        return multiple.adjusted([gap.p for _, gap, _ in self.against])


@dataclass(frozen=True, slots=True)
class Hours:
    """GPU-hours, or hours of the machine where runs take no GPU."""

    spent: float
    saved: float
    """What pruned runs would have taken to the end, by the mean of the finished ones."""
    adopted: int
    """Runs that the store had already."""


def rows(study: Study, view: View) -> list[Row]:
    """All trials, the best first, those without a value last."""
    found = []
    for trial in view.trials:
        done = finished(trial.runs, study)
        entropies = [r.look.measure.entropy for r in trial.runs if math.isfinite(r.look.measure.entropy)]
        partial = trial.runs[0].look.measure.value(study.rules.objective.last) if trial.runs and not done else math.nan
        found.append(
            Row(
                trial, study.space.name(trial.cell), len(done), _interval(done, study), partial, second(done, study),
                sum(entropies) / len(entropies) if entropies else math.nan, sum(r.look.hours for r in trial.runs),
            )
        )  # fmt: skip
    return sorted(found, key=lambda row: (row.interval is None, -(row.interval.estimate if row.interval else 0.0)))


def second(runs: Sequence[SeedRun], study: Study) -> float:
    """Mean pass@k of runs, NaN without any."""
    found = [r.look.measure.second(study.rules.objective.last) for r in runs]
    found = [value for value in found if math.isfinite(value)]
    return sum(found) / len(found) if found else math.nan


def front(found: Sequence[Row]) -> frozenset[int]:
    """Numbers of the trials that none beats in pass@1 and pass@k together; those without both are left out."""
    points = {
        row.trial.number: (row.interval.estimate, row.second)
        for row in found if row.interval is not None and math.isfinite(row.second)
    }  # fmt: skip

    def beaten(point: tuple[float, float]) -> bool:
        return any(o != point and o[0] >= point[0] and o[1] >= point[1] for o in points.values())

    return frozenset(number for number, point in points.items() if not beaten(point))


def finished(runs: Sequence[SeedRun], study: Study) -> list[SeedRun]:
    """The runs that have a value."""
    last = study.rules.objective.last
    return [r for r in runs if r.look.state == "done" and math.isfinite(r.look.measure.value(last))]


def fresh(view: View, study: Study, name: str) -> list[SeedRun]:
    """The finished runs of a group on fresh seeds."""
    return [r for r in finished(view.groups.get(name, ()), study) if r.seed >= study.rules.confirm.first]


def verdict(study: Study, view: View) -> Verdict | None:
    """The winner; None while there is none."""
    trial = next((t for t in view.trials if t.number == view.winner), None)
    if trial is None:
        return None
    mine = fresh(view, study, f"trial {trial.number}")
    others = [(label, runs) for name, label in (("mean", "the mean baseline"), ("paper", "K = 0.4"))
              if (runs := fresh(view, study, name))]  # fmt: skip
    if not mine:
        return Verdict(trial, None, ())
    arms = [mine, *(runs for _, runs in others)]
    problems = shared_problems(arms, study)
    scores, groups = [matrix(runs, problems, study) for runs in arms], strata(problems)
    against = tuple(
        (label, difference.paired(scores[0], x, groups), estimate.score(x, groups))
        for (label, _), x in zip(others, scores[1:], strict=True)
    )
    return Verdict(trial, estimate.score(scores[0], groups), against)


def hours(view: View) -> Hours:
    """What the study took, and what pruning saved."""
    saved = sum(
        max(0.0, view.run_hours - r.look.hours) for t in view.trials if t.status == "pruned" for r in t.runs
    )  # fmt: skip
    return Hours(view.spent, saved, len(view.adopted))


def _interval(runs: Sequence[SeedRun], study: Study) -> Interval | None:
    if not runs:
        return None
    problems = shared_problems([list(runs)], study)
    scores = matrix(list(runs), problems, study)
    return estimate.score(scores, strata(problems))


def shared_problems(arms: Sequence[Sequence[SeedRun]], study: Study) -> list[str]:
    """Problems that every run answered at its last evaluations, sorted."""
    return sorted(set.intersection(*(set(_scores(r.look.measure, study)) for arm in arms for r in arm)))


def matrix(runs: Sequence[SeedRun], problems: Sequence[str], study: Study) -> Floats:
    """(runs, problems) pass@1, each the mean over the last evaluations."""
    return np.array([[_scores(r.look.measure, study)[p] for p in problems] for r in runs], dtype=np.float64)


def strata(problems: Sequence[str]) -> np.ndarray:
    """(problems,) number of each problem's benchmark."""
    return np.unique([p.rsplit("/", 1)[0] for p in problems], return_inverse=True)[1].astype(np.int64)


def _scores(measure: Measure, study: Study) -> dict[str, float]:
    steps = sorted(step for step in measure.scores if step > 0)[-study.rules.objective.last :]
    common = set.intersection(*(set(measure.scores[s]) for s in steps)) if steps else set()
    return {p: sum(measure.scores[s][p] for s in steps) / len(steps) for p in common}


def importance(study: Study, journal_trials: Sequence[object]) -> dict[str, float]:
    """Share of the variance of the told values by axis (PED-ANOVA, Watanabe et al. 2023); empty for one axis.

    Args:
        journal_trials: Optuna's frozen trials.
    """
    if len(study.space.axes) < 2 or study.rules.objective.multi:
        return {}
    import optuna

    complete = [t for t in journal_trials if t.state.name == "COMPLETE"]  # type: ignore[attr-defined]
    if len(complete) < 4:
        return {}
    memory = optuna.create_study(direction="maximize")
    memory.add_trials(complete)  # type: ignore[arg-type]
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    return dict(optuna.importance.get_param_importances(memory, evaluator=evaluator))
