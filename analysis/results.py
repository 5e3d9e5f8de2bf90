"""The final scores of a study's arms with their intervals, and the comparisons with one baseline arm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis import tally
from analysis.arms import Arm, pick
from analysis.bootstrap import RESAMPLES, Interval, resample
from analysis.multiple import holm
from analysis.paired import Difference, difference
from analysis.study import Study
from analysis.tally import ALL, Evaluation
from harness.errors import HarnessError

LEVEL = 0.05
"""Of the family-wise error that a claim may have."""
SEED = 20250922  # of the bootstrap: the same report twice gives the same intervals


@dataclass(frozen=True, slots=True)
class Cell:
    """pass@k of one arm on one benchmark, in [0, 1]."""

    interval: Interval
    by_seed: tuple[float, ...]
    """pass@k of each seed, the mean over problems."""
    difference: Difference | None = None
    """Against the baseline arm; None for that arm itself."""
    adjusted: float | None = None
    """Its p-value after Holm over the family it belongs to."""

    @property
    def shown(self) -> bool:
        """Whether interval and adjusted p-value both exclude no difference: then words, stars and bold may
        say so.
        """
        if self.difference is None or self.adjusted is None:
            return False
        interval = self.difference.interval
        return (interval.low > 0 or interval.high < 0) and self.adjusted < LEVEL


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Final scores by arm, benchmark and k."""

    step: int
    """Training step of the evaluation that is scored."""
    arms: tuple[Arm, ...]
    """Arms with at least one run evaluated there; their runs are those evaluated."""
    against: Arm | None
    """The baseline arm; None where the study has only one arm."""
    benchmarks: tuple[str, ...]
    """Columns: every benchmark, then `ALL` where there are several."""
    ks: tuple[int, ...]
    cells: Mapping[tuple[str, str, int], Cell]
    """By (arm key, benchmark, k)."""
    notes: tuple[str, ...] = ()

    @property
    def primary(self) -> str:
        """What the claims in words are about: all benchmarks together, or the only one."""
        return self.benchmarks[-1]

    def cell(self, arm: Arm, benchmark: str, k: int) -> Cell:
        """One cell."""
        return self.cells[arm.key, benchmark, k]


def final(study: Study, against: str = "mean", *, resamples: int = RESAMPLES) -> Results:
    """Scores every arm at the last evaluation that all finished runs share.

    Two Holm families: the comparisons on all benchmarks together, which the words are about, and those on
    single benchmarks.

    Args:
        against: the arm to compare with, by baseline name or label; where the study has no such arm, its
        first.

    Raises:
        HarnessError: no outcome files, or no evaluation that the runs share.
    """
    step, kept, notes = _last_shared(study)
    arms = tuple(replace(arm, runs=runs) for arm in study.arms if (runs := tuple(r for r in arm.runs if r.id in kept)))
    base = pick(arms, against)
    if base is None:
        notes += [f"no arm {against!r}: compared with {arms[0].label} instead"]
        base = arms[0]
    evaluated = [[study.tallies[run.id].at(step) for run in arm.runs] for arm in arms]
    evaluated, names, alone = _comparable(evaluated)
    notes += alone
    benchmarks = (*names, ALL) if len(names) > 1 else tuple(names)
    rng = np.random.default_rng(SEED)
    cells: dict[tuple[str, str, int], Cell] = {}
    for benchmark in benchmarks:
        for k in study.ks:
            scores = tally.shared(evaluated, k, benchmark)
            if scores.dropped and k == study.ks[0]:
                notes.append(f"{benchmark}: {scores.dropped} problems that not every run answered are left out")
            draws = resample(scores.values, rng, resamples=resamples, strata=scores.strata)
            for i, arm in enumerate(arms):
                other = None
                if arm is not base:
                    other = difference(draws, scores.values, i, arms.index(base), strata=scores.strata)
                seeds = tuple(float(mean) for mean in scores.by_seed(i))
                cells[arm.key, benchmark, k] = Cell(_within(draws.interval(i)), seeds, other)
    single = len(arms) == 1
    return Results(
        step=step, arms=arms, against=None if single else base, benchmarks=benchmarks, ks=study.ks,
        cells=_adjusted(cells, benchmarks[-1]), notes=tuple(notes),
    )  # fmt: skip


def runs_by_benchmark(results: Results, arm: Arm, k: int) -> NDArray[np.float64]:
    """(seeds, benchmarks) pass@k of every run of an arm: runs and tasks for `analysis.aggregate`."""
    single = [name for name in results.benchmarks if name != ALL]
    return np.array([results.cell(arm, name, k).by_seed for name in single]).T


def _last_shared(study: Study) -> tuple[int, set[str], list[str]]:
    """(step, ids of the runs evaluated there, notes on those that were not)."""
    steps = {run.id: set(study.tallies[run.id].steps) for run in study.runs}
    evaluated = [run for run in study.runs if steps[run.id]]
    if not evaluated:
        raise HarnessError(
            f"none of {len(study.runs)} runs has evaluation outcomes: they lie in runs/<id>/outcomes/eval"
        )
    finished = [run for run in evaluated if run.state == "finished"] or evaluated
    common = set.intersection(*(steps[run.id] for run in finished))
    if not common:
        raise HarnessError("the runs share no evaluated step: set the same evaluation.every for all arms")
    step = max(common)
    kept = {run.id for run in evaluated if step in steps[run.id]}
    notes = [f"{run.label} ({run.id}) has no evaluation at step {step}: left out of the table"
             for run in study.runs if run.id not in kept]  # fmt: skip
    return step, kept, notes


def _comparable(
    evaluated: list[list[Evaluation]],
) -> tuple[list[list[Evaluation]], list[str], list[str]]:
    """(the evaluations on benchmarks that can be compared, their names, notes on the others).

    Raises: HarnessError where none can.
    """
    every = [evaluation for arm in evaluated for evaluation in arm]
    common = set.intersection(*(set(evaluation.problems) for evaluation in every))
    names = sorted({name for evaluation in every for name, _ in evaluation.problems})
    shared = {name: sum(benchmark == name for benchmark, _ in common) for name in names}
    kept = [name for name in names if shared[name] >= 2]
    notes = [
        f"{name}: left out, because all runs share {shared[name] or 'no'} problem{'s' * (shared[name] != 1)} of it and "
        "an interval over problems needs 2"
        for name in names
        if name not in kept
    ]
    if not kept:
        raise HarnessError("; ".join(notes))
    return [[evaluation.only(kept) for evaluation in arm] for arm in evaluated], kept, notes


def _within(interval: Interval) -> Interval:
    """A success rate's interval does not leave [0, 1]."""
    return replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high))


def _adjusted(cells: Mapping[tuple[str, str, int], Cell], primary: str) -> dict[tuple[str, str, int], Cell]:
    found = dict(cells)
    for family in (True, False):
        keys = [key for key, cell in cells.items() if cell.difference and (key[1] == primary) is family]
        adjusted = holm([cell.difference.p for key in keys if (cell := cells[key]).difference])
        for key, value in zip(keys, adjusted, strict=True):
            found[key] = replace(cells[key], adjusted=float(value))
    return found
