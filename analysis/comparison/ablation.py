"""What every figure and table of one sweep starts from: its arms and their evaluations, read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from analysis.comparison import arms, logged
from analysis.comparison.arms import Arm
from analysis.comparison.curves import Curves, align
from analysis.run import Run
from analysis.sources import tally_cache
from analysis.sources.tally import ALL, Tally
from analysis.statistics import entropy
from analysis.statistics.entropy import Health
from harness.errors import HarnessError, nearest


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Arms in their order and colours, with the tallies of their evaluations."""

    arms: tuple[Arm, ...]
    tallies: Mapping[str, Tally]
    """By run id; a run without outcome files has an empty one."""
    sweep: str = ""
    notes: tuple[str, ...] = field(default=())
    """On runs that are in no arm."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, by arm and seed."""
        return tuple(run for arm in self.arms for run in arm.runs)

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Sorted names of all evaluation sets."""
        found = {name for t in self.tallies.values() for name in t.benchmarks}
        found |= {name for run in self.runs if not self.tallies[run.id].steps for name in logged.benchmarks(run)}
        return tuple(sorted(found))

    @property
    def samples(self) -> int:
        """The fewest samples of any problem over all runs with outcomes; 0 without any."""
        return min((t.samples for t in self.tallies.values() if t.samples), default=0)

    @property
    def ks(self) -> tuple[int, ...]:
        """The k that the runs report pass@k for, ascending; those that the samples do not allow are left out."""
        named = [run.get("evaluation.k", None) for run in self.runs]
        asked = {k for ks in named for k in (ks if isinstance(ks, list | tuple) and ks else (1, 16))}
        asked = {k for k in asked if isinstance(k, int) and k >= 1}
        return tuple(sorted(k for k in asked if not self.samples or k <= self.samples)) or (1,)

    def curves(self, arm: Arm, metric: str, factor: float = 1.0) -> Curves | None:
        """One metric over the arm's seeds, times `factor`; None where no run of the arm logged it."""
        found = [run for run in arm.runs if run.has(metric)]
        if not found:
            return None
        return _by_seed(found, [run.metric(metric) for run in found]).scaled(factor)

    def require(self, metric: str) -> None:
        """Raises a HarnessError that names the nearest metric if no run logged `metric`."""
        if not any(run.has(metric) for run in self.runs):
            known = {name for run in self.runs for name in run.metrics}
            hint = nearest(metric, known) or "they logged none"
            raise HarnessError(f"none of {len(self.runs)} runs has the metric {metric!r}; {hint}")

    def pass_curves(self, arm: Arm, k: int, benchmark: str = ALL) -> Curves | None:
        """pass@k in percent over the arm's seeds, from outcome files; from logged metrics where a run has
        none.
        """
        found: list[tuple[Run, pd.Series]] = []
        for run in arm.runs:
            curve = self._pass_curve(run, k, benchmark)
            if curve is not None and len(curve):
                found.append((run, curve))
        return _by_seed([run for run, _ in found], [curve for _, curve in found]).scaled(100.0) if found else None

    def _pass_curve(self, run: Run, k: int, benchmark: str) -> pd.Series | None:
        found = self.tallies[run.id]
        if found.steps:
            return found.curve(k, benchmark) if k <= found.samples else None
        return logged.curve(run, k, benchmark)


def of(
    runs: Iterable[Run],
    by: str | Sequence[str] | None = None,
    *,
    sweep: str = "",
    read: Callable[[Run], Tally] = tally_cache.read,
) -> Study:
    """Groups runs into arms and counts their evaluations. Of a run without rows and config (its folder was purged)
    nobody can tell the arm: a note names it."""
    every = list(runs)
    selected = [run for run in every if len(run.history) or run.config] or every
    notes = [f"{run.id} is in no arm: {'; '.join(run.notes)}" for run in every if run not in selected]
    return Study(arms.group(selected, by), {run.id: read(run) for run in selected}, sweep, tuple(notes))


def overview(study: Study) -> pd.DataFrame:
    """One row a run: arm, seed, run (id), state, last step, and the verdict on its entropy with the step it
    began at.
    """
    rows = []
    for arm in study.arms:
        for run in arm.runs:
            found = health_of(run)
            verdict, began, last = (found.verdict, found.began, found.last) if found else ("not logged", None, None)
            rows.append((arm.label, run.seed, run.id, run.state, run.last_step, verdict, began, last))
    names = ["arm", "seed", "run", "state", "last step", "entropy", "since step", "last entropy"]
    return pd.DataFrame(rows, columns=names).astype({"since step": "Int64", "last step": "Int64"})


def health_of(run: Run) -> Health | None:
    """The verdict on a run's entropy; None where it was not logged."""
    name = entropy.of(run.has)
    if name is None:
        return None
    series = run.metric(name)
    return entropy.judge(series.index.to_numpy(), series.to_numpy())


def _by_seed(runs: Sequence[Run], series: Sequence[pd.Series]) -> Curves:
    """One curve a seed: runs of one seed are their mean."""
    found = align(series, [run_name(run) for run in runs])
    values = arms.one_a_seed(runs, found.values)
    if len(values) == len(found.values):
        return found
    names: dict[str, list[str]] = {}
    for run in runs:
        seed = run.seed
        names.setdefault(run.id if seed is None else f"seed {seed}", []).append(run.id)
    return Curves(found.steps, values, tuple(f"{name} ({', '.join(ids)})" for name, ids in names.items()))


def run_name(run: Run) -> str:
    """How a hover text or a row calls one run: its seed, and its id."""
    seed = run.seed
    return run.id if seed is None else f"seed {seed} ({run.id})"
