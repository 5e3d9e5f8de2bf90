"""The harness's outcome files: one row a response, the ground truth of every exact number."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.run import Run
from analysis.sources import parquet
from harness.errors import HarnessError, nearest
from harness.store import outcome_files

Kind = Literal["train", "eval", "tokens"]
KINDS: tuple[Kind, ...] = ("train", "eval", "tokens")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Rows of the outcome files of several runs."""

    frame: pd.DataFrame
    """Column `run` (id), `step`, and the columns that were asked for."""
    damaged: tuple[str, ...] = ()
    """Files that could not be read."""
    absent: tuple[str, ...] = ()
    """Labels of runs without any file of that kind."""


def steps(run: Run, kind: Kind) -> tuple[int, ...]:
    """The steps for which a run has a file, ascending; the files are not opened."""
    return tuple(step for step, _ in files(run, kind))


def files(run: Run, kind: Kind) -> list[tuple[int, Path]]:
    """(step, path) of a run's outcome files, by step."""
    return [] if run.folder is None else list(outcome_files.by_step(run.folder, kind).items())


def load(
    runs: Iterable[Run],
    kind: Kind,
    *,
    columns: Sequence[str] | None = None,
    at: Iterable[int] | None = None,
) -> Outcomes:
    """Outcome rows of several runs in one frame, run by run and step by step.

    Only the columns and steps that are asked for are read from disk. A damaged file is counted, not fatal.

    Args:
        columns: the columns besides `run` and `step`; None for all.
        at: training steps; None for all.

    Raises:
        HarnessError: no run has a file of this kind, or a column does not exist.
    """
    runs = list(runs)
    wanted = None if at is None else set(at)
    tables: list[pa.Table] = []
    damaged: list[str] = []
    absent: list[str] = []
    for run in runs:
        mine = files(run, kind)
        if not mine:
            absent.append(run.label)
        for step, path in mine:
            if wanted is not None and step not in wanted:
                continue
            table = _read(path, columns, damaged)
            if table is not None:
                tables.append(_tagged(table, run.id, step))
    if len(absent) == len(runs):
        raise HarnessError(f"none of {len(runs)} runs has outcomes/{kind}: they were not made by this harness")
    if not tables:
        frame = pd.DataFrame({"run": pd.Series(dtype=str), "step": pd.Series(dtype="int64")})
    else:
        frame = pa.concat_tables(tables, promote_options="permissive").to_pandas()
        frame["run"] = frame["run"].astype(str)
    return Outcomes(frame, tuple(damaged), tuple(absent))


def _read(path: Path, columns: Sequence[str] | None, damaged: list[str]) -> pa.Table | None:
    try:
        names = parquet.names(path)
        unknown = [name for name in columns or () if name not in names and name not in ("run", "step")]
        if not unknown:
            return parquet.read(path, None if columns is None else [n for n in columns if n in names])
    except parquet.Damaged as error:
        _LOG.warning("%s %s: left out", path, error)
        damaged.append(f"{path}: {error}")
        return None
    raise HarnessError(f"{path} has no column {unknown[0]!r}; {nearest(unknown[0], names)}")


def _tagged(table: pa.Table, run: str, step: int) -> pa.Table:
    others = [name for name in table.column_names if name not in ("run", "step")]
    # Dictionary-coded text is read as plain text: files of different steps have different dictionaries.
    arrays = [
        pc.cast(table[name], pa.string()) if pa.types.is_dictionary(table[name].type) else table[name]
        for name in others
    ]
    count = table.num_rows
    runs = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), pa.array([run]))
    return pa.table([runs, pa.array([step] * count, pa.int64()), *arrays], names=["run", "step", *others])


def majority_vote(outcomes: pd.DataFrame, by: tuple[str, ...] = ("problem",)) -> pd.Series:
    """maj@n: whether the most frequent answer of a problem is right, over all of its samples.

    Answers tied for the most votes count by the share of them that are right, so that the order of the
    samples plays no part. A sample without an answer does not vote; a problem without any vote is wrong.

    Args:
        outcomes: one row a sample; columns `answer` (str or null), `accuracy` (0 or 1) and those of `by`.

    Returns:
        float64 in [0, 1] indexed by `by`.
    """
    keys = list(by)
    votes = (
        outcomes.dropna(subset=["answer"])
        .groupby([*keys, "answer"], observed=True)["accuracy"]
        .agg(["size", "mean"])
        .reset_index()
    )
    most = votes.groupby(keys, observed=True)["size"].transform("max")
    won = votes[votes["size"] == most].groupby(keys, observed=True)["mean"].mean()
    problems = outcomes.groupby(keys, observed=True).size().index
    return won.reindex(problems, fill_value=0.0).astype("float64").rename("majority")
