"""`python -m harness.running.merge FOLDER`: an evaluation's outcomes go to the run's own, by problem and seed.

Every sampled response has a seed that follows from the run's rollout seed, the step, the problem and the sample
(harness/trainer/seeds.py): the first samples are those that training drew at this step, the others extend them. S
seeds of N samples are therefore drawn as S * N samples in one go; block i of N samples is evaluation seed i. Killed at
any moment and done again, nothing is there twice.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import files
from harness.errors import HarnessError
from harness.running import evaluations
from harness.store import outcome_files
from harness.store.runs import Store

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Result:
    """One benchmark, evaluated again."""

    benchmark: str
    problems: int
    samples: int
    """Of each problem, after merging."""
    accuracy: float
    """Mean over problems of the share of right responses."""
    by_seed: tuple[float, ...]
    """The same for every block of samples, that is for every evaluation seed."""


def into_run(store: Store, name: str) -> list[Result]:
    """Puts what an evaluation has drawn into its run's outcomes. Raises: HarnessError where the two do not mix."""
    import pyarrow.parquet as pq

    run, step = evaluations.parts(name)
    new = pq.read_table(outcome_files.path(store.folder(name), "eval", step))
    path = outcome_files.path(store.folder(run), "eval", step)
    with files.locked(path.parent / ".lock"):
        table = merge(pq.read_table(path), new) if path.is_file() else new
        with files.replacing(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    store.event(run, "evaluated again", step=step, rows=table.num_rows, drawn=new.num_rows)
    return results(table, int(store.spec(name)["evaluates"]["n"]))


def there(store: Store, run: str, step: int, n: int) -> list[Result]:
    """The outcomes that the run has of a step, in blocks of `n` samples; none where they cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return results(pq.read_table(outcome_files.path(store.folder(run), "eval", step)), n)
    except (OSError, pa.ArrowInvalid):
        return []


def merge(old: pa.Table, new: pa.Table) -> pa.Table:
    """The rows of `old`, and those of `new` whose problem and seed are not among them; in the order of the file.

    Rows without a seed (a rollout engine that takes none) are told apart by problem and sample.
    Raises: HarnessError where the two were judged by different scorers.
    """
    import pyarrow as pa

    judges = {name for table in (old, new) for name in table["scorer"].unique().to_pylist()}
    if len(judges) > 1:
        raise HarnessError(
            f"the outcomes were judged by different scorers, {' and '.join(sorted(judges))}: evaluate all steps again"
        )
    keys = set(_keys(old))
    fresh = pa.array([key not in keys for key in _keys(new)], pa.bool_())
    whole = pa.concat_tables([old, new.filter(fresh)])
    return whole.sort_by([("benchmark", "ascending"), ("problem", "ascending"), ("sample", "ascending")])


def _keys(table: pa.Table) -> list[tuple[str, int | None, int | None]]:
    columns = (table[name].to_pylist() for name in ("problem", "seed", "sample"))
    return [
        (problem, seed, None if seed is not None else sample) for problem, seed, sample in zip(*columns, strict=True)
    ]


def results(table: pa.Table, samples: int) -> list[Result]:
    """One result a benchmark; blocks of `samples` samples are the evaluation seeds, an incomplete last one is left."""
    frame = table.to_pandas()
    found = []
    for benchmark, rows in frame.groupby("benchmark"):
        counts = rows.groupby("problem")["sample"].count()
        blocks = [part for i, part in rows.groupby(rows["sample"] // samples) if (i + 1) * samples <= counts.min()]
        by_seed = tuple(float(part.groupby("problem")["accuracy"].mean().mean()) for part in blocks)
        mean = float(rows.groupby("problem")["accuracy"].mean().mean())
        found.append(Result(str(benchmark), len(counts), int(counts.min()), mean, by_seed))
    return found


def told(found: list[Result]) -> str:
    """One line a benchmark."""
    lines = []
    for result in found:
        spread = ""
        if len(result.by_seed) > 1:
            low, high = min(result.by_seed), max(result.by_seed)
            spread = f", {len(result.by_seed)} evaluation seeds from {100 * low:.2f} to {100 * high:.2f}"
        lines.append(
            f"{result.benchmark}: pass@1 {100 * result.accuracy:.2f} over {result.problems} problems, "
            f"{result.samples} samples each{spread}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    (name,) = arguments if arguments is not None else sys.argv[1:]
    store, evaluation = Store.holding(Path(name).resolve())
    try:
        print(told(into_run(store, evaluation)))
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
