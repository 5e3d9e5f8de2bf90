"""`harness eval RUN`: evaluates a checkpoint again, with more samples, and merges the outcomes by problem and seed.

The trainer itself does it, in a folder of its own under the run (`evaluations/step_000200/`), told to evaluate only.
Every sampled response has a seed that follows from the run's rollout seed, the step, the problem and the sample
(harness/trainer/seeds.py): the first samples are those that training drew at this step, the others extend them. S
seeds of N samples are therefore drawn as S * N samples in one go; block i of N samples is evaluation seed i.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import files
from harness.errors import HarnessError
from harness.store import Store
from harness.trainer import checkpoints

if TYPE_CHECKING:
    import pyarrow as pa

TRAINER = "harness.trainer.main"


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


def evaluate(store: Store, run: str, step: int | None, samples: int, seeds: int, project: Path) -> list[Result]:
    """Evaluates the checkpoint of a step, by default the latest, and merges the outcomes into the run's own.

    Raises: HarnessError where the run is being trained, has no such checkpoint, or the trainer failed.
    """
    for name, value in (("--n", samples), ("--seeds", seeds)):
        if value < 1:
            raise HarnessError(f"{name} {value}: at least 1")
    if store.state(run).kind == "running":
        raise HarnessError(f"run {run} is being trained, and its checkpoints come and go: wait until it has ended")
    spec = store.spec(run)
    step = _step(store.folder(run) / "checkpoints", step, run)
    folder = store.folder(run) / "evaluations" / f"step_{step:06d}"
    prepare(folder, spec, store.folder(run) / "checkpoints", step, samples * seeds)
    number = len(list((folder / "attempts").glob("*"))) + 1
    log = folder / "attempts" / f"{number:03d}" / "stdout.log"
    log.parent.mkdir(parents=True)
    with log.open("wb") as out:
        command = [sys.executable, "-m", TRAINER, str(folder), "--attempt", str(number)]
        code = subprocess.run(command, cwd=project, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    drawn = folder / "outcomes" / "eval" / f"step_{step:06d}.parquet"
    if code or not drawn.is_file():
        raise HarnessError(f"the evaluation ended with exit code {code}: {log} says why; the same command tries again")
    return _merged(store, run, step, drawn, samples)


def _step(root: Path, step: int | None, run: str) -> int:
    whole = [s for s in checkpoints.steps(root) if checkpoints.is_sealed(root, s)]
    if step is None and whole:
        return whole[-1]
    if step in whole:
        return step
    asked = "a checkpoint" if step is None else f"the checkpoint of step {step}"
    there = ", ".join(map(str, whole)) or "none"
    raise HarnessError(f"run {run} has not {asked} (there: {there}): set keep_checkpoints and save_every to keep more")


def prepare(folder: Path, spec: Mapping[str, Any], root: Path, step: int, samples: int) -> None:
    """Writes the folder of an evaluation: the run's spec, told to evaluate only, and a link to the checkpoint."""
    verl = spec["verl"]
    rollout = verl["actor_rollout_ref"]["rollout"]
    told = {
        **spec,
        "verl": {
            **verl,
            "trainer": {
                **verl["trainer"], "val_only": True, "val_before_train": True, "logger": ["console"], "save_freq": -1,
            },
            "actor_rollout_ref": {
                **verl["actor_rollout_ref"],
                "rollout": {**rollout, "val_kwargs": {**rollout["val_kwargs"], "n": samples}},
            },
        },
    }  # fmt: skip
    link = checkpoints.folder(folder / "checkpoints", step)
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(checkpoints.folder(root, step).resolve(), target_is_directory=True)
    files.write_text(link.parent / checkpoints.TRACKER, str(step))
    shutil.rmtree(folder / "outcomes", ignore_errors=True)  # of an earlier try: the run's own outcomes have it already
    files.write_json(folder / "spec.json", told)


def _merged(store: Store, run: str, step: int, drawn: Path, samples: int) -> list[Result]:
    import pyarrow.parquet as pq

    path = store.folder(run) / "outcomes" / "eval" / f"step_{step:06d}.parquet"
    new = pq.read_table(drawn)
    table = merge(pq.read_table(path), new) if path.is_file() else new
    with files.replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    store.event(run, "evaluated again", step=step, rows=table.num_rows, drawn=new.num_rows)
    return results(table, samples)


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
