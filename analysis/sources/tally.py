"""Counts of samples and right samples by evaluation and problem: all that pass@k needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analysis.run import Run
from analysis.sources import outcomes, parquet
from analysis.statistics.passk import pass_at_k
from harness.errors import HarnessError

_COLUMNS = ["step", "benchmark", "problem", "accuracy", "scorer"]
ALL = "all benchmarks"
"""The mean of the benchmarks' means, each counting equally."""

Counts = NDArray[np.int64]
Problem = tuple[str, str]
"""(benchmark, problem)"""


def _none() -> Counts:
    return np.zeros((0, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tally:
    """The evaluations of one run. Arrays are (steps, problems); n is 0 where a problem was not asked."""

    steps: tuple[int, ...] = ()
    """Training steps with an evaluation, ascending."""
    problems: tuple[Problem, ...] = ()
    """Sorted."""
    n: Counts = field(default_factory=_none)
    correct: Counts = field(default_factory=_none)
    scorers: tuple[str, ...] = ()
    """Name and version of what decided on right and wrong."""
    notes: tuple[str, ...] = ()
    """Files that could not be read."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Sorted names."""
        return tuple(dict.fromkeys(benchmark for benchmark, _ in self.problems))

    @property
    def samples(self) -> int:
        """The fewest samples of any problem that was asked; 0 without evaluations."""
        return int(self.n[self.n > 0].min()) if self.n.size else 0

    def curve(self, k: int, benchmark: str = ALL) -> pd.Series:
        """pass@k in [0, 1] by step, the mean over problems; `ALL` is the mean of the benchmarks.

        A step at which a benchmark is missing is left out of `ALL`.

        Raises:
            HarnessError: k exceeds the samples.
        """
        asked = self.n > 0
        scores = np.full(self.n.shape, np.nan)
        scores[asked] = pass_at_k(self.n[asked], self.correct[asked], k)
        places: dict[str, list[int]] = {}
        for i, (name, _) in enumerate(self.problems):
            places.setdefault(name, []).append(i)
        means = []
        for name in self.benchmarks if benchmark == ALL else (benchmark,):
            columns = places.get(name, [])
            count = asked[:, columns].sum(axis=1)
            total = np.nansum(scores[:, columns], axis=1)
            means.append(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))
        values = np.mean(means, axis=0) if means else np.full(len(self.steps), np.nan)
        found = pd.Series(values, index=pd.Index(self.steps, dtype=np.int64, name="step"), dtype=np.float64)
        return found.dropna()

    def at(self, step: int) -> Evaluation:
        """One evaluation; the problems that were asked at that step."""
        row = self.steps.index(step)
        asked = self.n[row] > 0
        if asked.all():
            return Evaluation(self.problems, self.n[row], self.correct[row])
        chosen = tuple(problem for problem, there in zip(self.problems, asked, strict=True) if there)
        return Evaluation(chosen, self.n[row][asked], self.correct[row][asked])


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """One evaluation of one run."""

    problems: tuple[Problem, ...]
    """Sorted."""
    n: Counts
    """(problems,)"""
    correct: Counts
    """(problems,)"""

    def only(self, benchmarks: Sequence[str]) -> Evaluation:
        """The part of it on these benchmarks."""
        chosen = np.array([name in benchmarks for name, _ in self.problems], dtype=bool)
        kept = tuple(problem for problem in self.problems if problem[0] in benchmarks)
        return self if chosen.all() else Evaluation(kept, self.n[chosen], self.correct[chosen])

    def scores(self, k: int, problems: Sequence[Problem]) -> NDArray[np.float64]:
        """pass@k of these problems, in their order."""
        found = pass_at_k(self.n, self.correct, k)
        if tuple(problems) == self.problems:
            return found
        place = {problem: i for i, problem in enumerate(self.problems)}
        return found[[place[problem] for problem in problems]]


def read(run: Run) -> Tally:
    """Counts a run's evaluation files `outcomes/eval/step_*.parquet`; empty where it has none.

    Raises:
        HarnessError: an accuracy that is neither 0 nor 1: pass@k needs right or wrong.
    """
    tables, notes = [], []
    for _, path in outcomes.files(run, "eval"):
        try:
            tables.append(parquet.read(path, _COLUMNS))
        except parquet.Damaged as error:
            notes.append(f"{path} {error}: its evaluation is left out")
    if not tables:
        return Tally(notes=tuple(notes))
    return count(pa.concat_tables(tables, promote_options="permissive"), f"run {run.label} ({run.id})", tuple(notes))


def count(table: pa.Table, where: str = "outcomes", notes: tuple[str, ...] = ()) -> Tally:
    """Sums samples by step and problem.

    Args:
        table: columns step, benchmark, problem, accuracy, scorer; one row a sample.
        where: for the error's text.

    Raises:
        HarnessError: an accuracy that is neither 0 nor 1, or none: an unknown sample must not pass for a
        wrong one.
    """
    accuracy = table["accuracy"].to_numpy().astype(np.float64)
    odd = (accuracy != 0) & (accuracy != 1)
    if odd.any():
        raise HarnessError(
            f"{where}: accuracy {accuracy[odd][0]:g} in {int(odd.sum())} rows: expected 0 or 1; let the reward function"
            " report right or wrong as `acc`"
        )
    steps, row = np.unique(table["step"].to_numpy(), return_inverse=True)
    benchmarks, problems = _encoded(table["benchmark"]), _encoded(table["problem"])
    pairs, column = np.unique(benchmarks[1] * len(problems[0]) + problems[1], return_inverse=True)
    names = [(benchmarks[0][pair // len(problems[0])], problems[0][pair % len(problems[0])]) for pair in pairs]
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    cell = row * len(order) + rank[column]
    shape = (len(steps), len(order))
    size = shape[0] * shape[1]
    scorers = tuple(sorted(str(name) for name in pc.unique(table["scorer"]).to_pylist() if name))
    return Tally(
        steps=tuple(int(step) for step in steps),
        problems=tuple(names[i] for i in order),
        n=np.bincount(cell, minlength=size).reshape(shape).astype(np.int64),
        correct=np.bincount(cell, weights=accuracy, minlength=size).reshape(shape).astype(np.int64),
        scorers=scorers,
        notes=notes,
    )


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """(distinct texts, code of every row)."""
    plain = pc.cast(column, pa.string()).combine_chunks().dictionary_encode()
    return [str(text) for text in plain.dictionary.to_pylist()], plain.indices.to_numpy().astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Per-problem scores of several arms on the problems they all share."""

    values: tuple[NDArray[np.float64], ...]
    """One (seeds, problems) array an arm, in [0, 1]."""
    problems: tuple[Problem, ...]
    strata: NDArray[np.int64]
    """(problems,) the number of each problem's benchmark."""
    dropped: int
    """Problems that not every run answered."""

    def by_seed(self, arm: int) -> NDArray[np.float64]:
        """(seeds,) mean score of each run of one arm; benchmarks count equally."""
        x = self.values[arm]
        return np.mean([x[:, self.strata == s].mean(axis=1) for s in np.unique(self.strata)], axis=0)


def shared(arms: Sequence[Sequence[Evaluation]], k: int, benchmark: str = ALL) -> Scores:
    """pass@k of every problem that all runs of all arms answered.

    Args:
        arms: one list an arm of evaluations, one a seed.

    Raises:
        HarnessError: they share no problem, or k exceeds the samples.
    """
    evaluations = [evaluation for arm in arms for evaluation in arm]
    if not evaluations:
        raise HarnessError("no evaluation to score: none of the runs has outcome files")
    distinct = {evaluation.problems for evaluation in evaluations}
    every, common = set.union(*map(set, distinct)), set.intersection(*map(set, distinct))
    if benchmark != ALL:
        every, common = ({p for p in found if p[0] == benchmark} for found in (every, common))
    if not common:
        raise HarnessError(f"the runs share no problem of {benchmark}: compare runs with one evaluation set")
    problems = tuple(sorted(common))
    values = tuple(np.stack([evaluation.scores(k, problems) for evaluation in arm]) for arm in arms)
    _, strata = np.unique([name for name, _ in problems], return_inverse=True)
    return Scores(values, problems, strata.astype(np.int64), len(every) - len(problems))
