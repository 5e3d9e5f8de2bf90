"""Counts of samples and right samples by evaluation, benchmark and problem: all that pass@k needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from analysis.passk import pass_at_k
from analysis.run import Run
from analysis.sources import outcomes
from harness.errors import HarnessError

_COLUMNS = ["step", "benchmark", "problem", "accuracy", "scorer"]
ALL = "all benchmarks"
"""The mean of the benchmarks' means, each counting equally."""


_EMPTY = pd.DataFrame(
    {
        name: pd.Series(dtype=kind)
        for name, kind in {
            "step": "int64",
            "benchmark": "str",
            "problem": "str",
            "n": "int64",
            "correct": "int64",
        }.items()
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """The evaluations of one run."""

    counts: pd.DataFrame
    """One row an evaluation and problem: step, benchmark, problem, n, correct; sorted by these."""
    scorers: tuple[str, ...] = ()
    """Name and version of what decided on right and wrong."""
    notes: tuple[str, ...] = ()
    """Files that could not be read."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Sorted names."""
        return tuple(sorted(map(str, self.counts["benchmark"].unique())))

    @property
    def steps(self) -> tuple[int, ...]:
        """Training steps with an evaluation, ascending."""
        return tuple(int(step) for step in np.unique(self.counts["step"]))

    @property
    def samples(self) -> int:
        """The fewest samples of any problem; 0 without evaluations."""
        return int(self.counts["n"].min()) if len(self.counts) else 0

    def curve(self, k: int, benchmark: str = ALL) -> pd.Series:
        """pass@k in [0, 1] by step, the mean over problems; `ALL` is the mean of the benchmarks.

        A step at which a benchmark is missing is left out of `ALL`.
        """
        rows = self.counts if benchmark == ALL else self.counts[self.counts["benchmark"] == benchmark]
        if rows.empty:
            return pd.Series(dtype=np.float64)
        scored = rows.assign(score=pass_at_k(rows["n"], rows["correct"], k))
        means = scored.groupby(["step", "benchmark"], observed=True)["score"].mean().unstack("benchmark")
        return means.dropna().mean(axis=1)

    def at(self, step: int) -> pd.DataFrame:
        """The rows of one evaluation indexed by (benchmark, problem): n, correct."""
        rows = self.counts[self.counts["step"] == step]
        return rows.set_index(["benchmark", "problem"])[["n", "correct"]].sort_index()


def read(run: Run) -> Tally:
    """Counts a run's evaluation files `outcomes/eval/step_*.parquet`; empty where it has none.

    Raises:
        HarnessError: an accuracy that is neither 0 nor 1: pass@k needs right or wrong.
    """
    tables, notes = [], []
    for _, file in outcomes.files(run, "eval"):
        try:
            tables.append(pq.read_table(file, columns=_COLUMNS))
        except (pa.ArrowException, OSError) as error:
            notes.append(f"{file} cannot be read ({str(error).splitlines()[0]}): its evaluation is left out")
    if not tables:
        return Tally(_EMPTY, notes=tuple(notes))
    table = pa.concat_tables(tables, promote_options="permissive")
    scorers = tuple(sorted(str(name) for name in pc.unique(table["scorer"]).to_pylist() if name))
    return Tally(count(table, f"run {run.label} ({run.id})"), scorers, tuple(notes))


def count(table: pa.Table, where: str = "outcomes") -> pd.DataFrame:
    """Sums samples into one row an evaluation and problem: step, benchmark, problem, n, correct."""
    accuracy = table["accuracy"]
    # A null sample is unknown, not wrong: it must not pass for an answer.
    odd = accuracy.filter(pc.invert(pc.fill_null(pc.or_(pc.equal(accuracy, 0.0), pc.equal(accuracy, 1.0)), False)))
    if len(odd):
        raise HarnessError(
            f"{where}: accuracy {odd[0].as_py()} in {len(odd)} rows: expected 0 or 1; let the reward function"
            " report right or wrong as `acc`"
        )
    grouped = table.group_by(["step", "benchmark", "problem"]).aggregate([("accuracy", "count"), ("accuracy", "sum")])
    frame = pd.DataFrame(
        {
            "step": grouped["step"].to_numpy().astype(np.int64),
            "benchmark": grouped["benchmark"].to_pandas().astype(str).to_numpy(),
            "problem": grouped["problem"].to_pandas().astype(str).to_numpy(),
            "n": grouped["accuracy_count"].to_numpy().astype(np.int64),
            "correct": np.rint(grouped["accuracy_sum"].to_numpy()).astype(np.int64),
        }
    )
    return frame.sort_values(["step", "benchmark", "problem"], ignore_index=True)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Per-problem scores of several arms on the problems they all share."""

    values: tuple[NDArray[np.float64], ...]
    """One (seeds, problems) array an arm, in [0, 1]."""
    problems: tuple[str, ...]
    strata: NDArray[np.int64]
    """(problems,) the number of each problem's benchmark."""
    benchmarks: tuple[str, ...]
    dropped: int
    """Problems that not every run answered."""


def shared(arms: Sequence[Sequence[pd.DataFrame]], k: int, benchmark: str = ALL) -> Scores:
    """pass@k of every problem that all runs of all arms answered.

    Args:
        arms: one list an arm of frames as `Tally.at` gives them, one a seed.

    Raises:
        HarnessError: they share no problem, or k exceeds the samples.
    """
    frames = [frame for arm in arms for frame in arm]
    if not frames:
        raise HarnessError("no evaluation to score: none of the runs has outcome files")
    if benchmark != ALL:
        frames = [frame[frame.index.get_level_values(0) == benchmark] for frame in frames]
    index, union = frames[0].index, frames[0].index
    for frame in frames[1:]:
        if not frame.index.equals(index):
            index, union = index.intersection(frame.index), union.union(frame.index)
    if index.empty:
        raise HarnessError(f"the runs share no problem of {benchmark}: compare runs with one evaluation set")
    index = index.sort_values()
    rows = iter(frames)
    values = []
    for arm in arms:
        chosen = [next(rows).loc[index] for _ in arm]
        values.append(np.stack([pass_at_k(f["n"].to_numpy(), f["correct"].to_numpy(), k) for f in chosen]))
    names = index.get_level_values(0)
    benchmarks = tuple(sorted(set(names)))
    strata = np.searchsorted(np.array(benchmarks), names.to_numpy().astype(str)).astype(np.int64)
    problems = tuple(map(str, index.get_level_values(1)))
    return Scores(tuple(values), problems, strata, benchmarks, len(union) - len(index))
