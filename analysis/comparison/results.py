"""The final scores of a study's arms with their intervals, and the comparisons with one baseline arm."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.comparison import logged
from analysis.comparison.ablation import Study
from analysis.comparison.arms import BASELINE, Against, Arm, counterpart, meant, one_a_seed, require
from analysis.sources import tally
from analysis.sources.tally import ALL, Evaluation
from analysis.statistics import difference, estimate, multiple
from analysis.statistics.difference import Difference
from analysis.statistics.estimate import Interval
from harness.errors import HarnessError

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cell:
    """pass@k of one arm on one benchmark, in [0, 1]."""

    interval: Interval
    by_seed: tuple[float, ...]
    """pass@k of each seed, the mean over problems."""
    difference: Difference | None = None
    """Against the baseline arm; None for that arm itself."""
    adjusted: float | None = None
    """Its p-value after Holm over the family it belongs to; None where there is no p, as below three seeds."""

    @property
    def shown(self) -> bool:
        """Whether a difference of the methods is shown, after Holm: then words and arrows may say so."""
        return self.difference is not None and self.adjusted is not None and self.adjusted < multiple.LEVEL

    @property
    def direction(self) -> int:
        """1 where the arm is shown to be better, -1 where worse, else 0."""
        if self.difference is None or not self.shown:
            return 0
        return 1 if self.difference.interval.estimate > 0 else -1


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Final scores by arm, benchmark and k."""

    step: int
    """Training step of the evaluation that is scored."""
    arms: tuple[Arm, ...]
    """Arms with at least one run evaluated there; their runs are those evaluated."""
    against: Arm | None
    """The baseline arm, the first where there are several; None where the study has only one arm."""
    benchmarks: tuple[str, ...]
    """Columns: every benchmark, then `ALL` where there are several."""
    ks: tuple[int, ...]
    cells: Mapping[tuple[str, str, int], Cell]
    """By (arm key, benchmark, k)."""
    notes: tuple[str, ...] = ()
    logged: bool = False
    """Scores as the runs logged them: intervals are over seeds alone, see `analysis.comparison.logged`."""
    bases: Mapping[str, Arm] = field(default_factory=dict)
    """The baseline arm that an arm is compared with, by its key; a baseline arm itself is not there."""

    @property
    def intervals(self) -> str:
        """What the intervals are, for a caption."""
        if self.logged:
            return "95 % intervals over seeds, none below three; a log does not tell problems apart"
        return "95 % intervals over seeds and problems; below three seeds over problems only, for these runs alone"

    def base(self, arm: Arm) -> Arm | None:
        """What an arm is compared with; None for a baseline arm."""
        return self.bases.get(arm.key)

    @property
    def base_name(self) -> str:
        """What all comparisons are with, in words."""
        names = list(dict.fromkeys(arm.short for arm in self.bases.values()))
        return names[0] if len(names) == 1 else "the baseline of the same setting"

    @property
    def primary(self) -> str:
        """What the claims in words are about: all benchmarks together, or the only one."""
        return self.benchmarks[-1]

    def cell(self, arm: Arm, benchmark: str, k: int) -> Cell:
        """One cell."""
        return self.cells[arm.key, benchmark, k]


def attempt(study: Study, against: Against = BASELINE) -> tuple[Results | None, str]:
    """As `final`, for a page that shows the rest all the same: (the numbers, why there are none)."""
    try:
        return final(study, against), ""
    except HarnessError as error:
        _LOG.info("no table: %s", error)
        return None, str(error)


def final(study: Study, against: Against = BASELINE) -> Results:
    """Scores every arm at the last evaluation that all finished runs share.

    Two Holm families: the comparisons on all benchmarks together, which the words are about, and those on
    single benchmarks.

    Args:
        against: the arm to compare with; where there are several of that baseline, each arm is compared with the one
        of its own setting (`arms.counterpart`); where a study has no mean baseline, or the arm was not evaluated, with
        its first arm.

    Raises:
        HarnessError: no evaluations, none that the runs share, or an arm that the study does not have.
    """
    if against != BASELINE:
        require(study.arms, against)
    by_log = not any(study.tallies[run.id].steps for run in study.runs)
    step, kept, notes = _last_shared(study, by_log)
    arms = tuple(replace(arm, runs=runs) for arm in study.arms if (runs := tuple(r for r in arm.runs if r.id in kept)))
    candidates = meant(arms, against)
    if not candidates and len(arms) > 1:
        there = meant(study.arms, against)
        why = f"no arm {against!r}" if not there else f"{there[0].label} was not evaluated at step {step}"
        notes += [f"{why}: compared with {arms[0].label} instead"]
    if not candidates or len(candidates) == len(arms):
        candidates = [arms[0]]
    bases = {arm.key: counterpart(arm, candidates) for arm in arms if arm not in candidates}
    single = len(arms) == 1
    if by_log:
        return _logged(study, arms, bases, step, notes)
    evaluated = [[study.tallies[run.id].at(step) for run in arm.runs] for arm in arms]
    evaluated, names, alone = _comparable(evaluated)
    notes += alone
    benchmarks = (*names, ALL) if len(names) > 1 else tuple(names)
    cells: dict[tuple[str, str, int], Cell] = {}
    for benchmark in benchmarks:
        for k in study.ks:
            scores = tally.shared(evaluated, k, benchmark)
            values = tuple(one_a_seed(arm.runs, x) for arm, x in zip(arms, scores.values, strict=True))
            scores = replace(scores, values=values)
            if scores.dropped and k == study.ks[0]:
                notes.append(f"{benchmark}: {scores.dropped} problems that not every run answered are left out")
            for i, arm in enumerate(arms):
                other = None
                if arm.key in bases:
                    base = scores.values[arms.index(bases[arm.key])]
                    other = difference.paired(scores.values[i], base, scores.strata)
                seeds = tuple(float(mean) for mean in scores.by_seed(i))
                cells[arm.key, benchmark, k] = Cell(estimate.score(scores.values[i], scores.strata), seeds, other)
    return Results(
        step=step, arms=arms, against=None if single else candidates[0], benchmarks=benchmarks, ks=study.ks,
        cells=_adjusted(cells, benchmarks[-1]), notes=tuple(notes), bases=bases,
    )  # fmt: skip


def _logged(study: Study, arms: tuple[Arm, ...], bases: Mapping[str, Arm], step: int, notes: Sequence[str]) -> Results:
    """`final` from logged scores."""
    names = study.benchmarks
    benchmarks = (*names, ALL) if len(names) != 1 else names
    ks = _logged_ks(study, arms, benchmarks, step)
    if not ks:
        raise HarnessError(f"the runs logged no score of {', '.join(benchmarks)} at step {step} that they share")
    cells: dict[tuple[str, str, int], Cell] = {}
    for benchmark in benchmarks:
        for k in ks:
            values = {arm.key: logged.by_seed(arm, k, benchmark, step) for arm in arms}
            for arm in arms:
                base = bases.get(arm.key, arm)
                own, other = values[arm.key], values[base.key]
                if own is not None and other is not None:
                    against = None if arm is base else difference.over_seeds(own, other)
                    cells[arm.key, benchmark, k] = Cell(estimate.over_seeds(own), tuple(own), against)
    return Results(
        step=step, arms=arms, against=next((arm for arm in arms if arm.key not in bases), None) if bases else None,
        benchmarks=benchmarks, ks=ks, cells=_adjusted(cells, benchmarks[-1]), notes=tuple(notes), logged=True,
        bases=bases,
    )  # fmt: skip


def _logged_ks(study: Study, arms: Sequence[Arm], names: Sequence[str], step: int) -> tuple[int, ...]:
    """The k that all runs logged for all these benchmarks."""
    return tuple(k for k in study.ks if all(logged.by_seed(arm, k, b, step) is not None for arm in arms for b in names))


def _last_shared(study: Study, by_log: bool) -> tuple[int, set[str], list[str]]:
    """(step, ids of the runs evaluated there, notes on those that were not)."""
    steps = {run.id: set(study.tallies[run.id].steps) for run in study.runs}
    if by_log:
        curves = {run.id: curve for run in study.runs if (curve := logged.curve(run, 1)) is not None}
        steps |= {run: {int(step) for step in curve.dropna().index} for run, curve in curves.items()}
    evaluated = [run for run in study.runs if steps[run.id]]
    if not evaluated:
        raise HarnessError(
            f"none of {len(study.runs)} runs has evaluation outcomes, which lie in runs/<id>/outcomes/eval, or logged"
            " eval/pass@1 or val-core/<benchmark>/acc/mean@N"
        )
    finished = [run for run in evaluated if run.state == "finished"] or evaluated
    common = set.intersection(*(steps[run.id] for run in finished))
    if not common:
        raise HarnessError("the runs share no evaluated step: set the same evaluation.every for all arms")
    step = max(common)
    kept = {run.id for run in evaluated if step in steps[run.id]}
    notes = [f"{run.label} ({run.id}) has no evaluation at step {step}: left out of the table"
             for run in study.runs if run.id not in kept]  # fmt: skip
    longest = max(max(steps[run.id]) for run in finished)
    if longest > step:
        first = min(finished, key=lambda run: max(steps[run.id]))
        notes.append(
            f"scores are of step {step}, the last that all runs share; others were evaluated up to step {longest}:"
            f" {first.label} ({first.id}) ends at {max(steps[first.id])}; --filter leaves runs out"
        )
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


def _adjusted(cells: Mapping[tuple[str, str, int], Cell], primary: str) -> dict[tuple[str, str, int], Cell]:
    found = dict(cells)
    for family in (True, False):
        keys = [key for key, cell in cells.items() if cell.difference and (key[1] == primary) is family]
        adjusted = multiple.adjusted([cell.difference.p for key in keys if (cell := cells[key]).difference])
        for key, value in zip(keys, adjusted, strict=True):
            found[key] = replace(cells[key], adjusted=value)
    return found
