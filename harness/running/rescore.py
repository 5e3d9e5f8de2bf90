"""`harness score RUN`: the kept responses of an evaluation judged again, without a model.

Responses are kept where the run had `verl.trainer.validation_data_dir=rollouts` (verl's JSON lines, one file a step; a
relative folder lies in the run's own). Outcomes carry no text, so a response finds its row by problem and sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import files
from harness.errors import HarnessError
from harness.store import outcome_files
from harness.store.runs import Store
from harness.tasks.data import prepared
from harness.tasks.data.problem import squeezed
from harness.tasks.scoring.scorer import SCORER, score

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Rescored:
    """What became of one evaluation."""

    step: int
    rows: int
    changed: int
    """Responses whose accuracy is another now."""


def rescore(store: Store, run: str, steps: Sequence[int] = ()) -> list[Rescored]:
    """Judges the kept responses of these steps, by default of all, and puts the verdicts into the outcome files.

    Raises: HarnessError where no responses were kept, one belongs to no problem of the run's evaluation sets, or these
    are a built-in task's.
    """
    spec = store.spec(run)
    builtin = ((spec.get("config") or {}).get("evaluation") or {}).get("builtin")
    if builtin:
        raise HarnessError(
            f"run {run} is evaluated on the built-in task {builtin}, which has its own scorer: {SCORER} is for maths"
        )
    folder = _folder(store.folder(run), spec)
    problems = _problems([Path(file) for file in spec["verl"]["data"]["val_files"]])
    found = sorted(int(path.stem) for path in folder.glob("*.jsonl") if path.stem.isdigit())
    missing = [step for step in steps if step not in found]
    if missing or not found:
        there = ", ".join(map(str, found)) or "none"
        raise HarnessError(f"{folder}: no responses of step {missing[0] if missing else '...'} (there: {there})")
    return [_step(store, run, folder, step, problems) for step in steps or found]


def _folder(run: Path, spec: Mapping[str, Any]) -> Path:
    name = spec["verl"]["trainer"].get("validation_data_dir")
    if not name:
        raise HarnessError(
            f"run {run.name} kept no responses: plan runs with verl.trainer.validation_data_dir=rollouts to keep them"
        )
    return run / name


def _problems(paths: Iterable[Path]) -> dict[str, tuple[str, str]]:
    """From a prompt without typesetting to the problem's name in the outcome files, and its answer."""
    found = {}
    for path in paths:
        for row in prepared.read(path):
            name = f"{row['data_source']}/{row['extra_info']['index']}"
            found[squeezed(row["prompt"][-1]["content"])] = name, row["reward_model"]["ground_truth"]
    return found


def _step(store: Store, run: str, folder: Path, step: int, problems: Mapping[str, tuple[str, str]]) -> Rescored:
    import pyarrow.parquet as pq

    path = outcome_files.path(store.folder(run), "eval", step)
    if not path.is_file():
        raise HarnessError(f"{path} does not exist: step {step} has responses but no outcomes")
    with files.locked(path.parent / ".lock"):  # `harness.running.merge` writes the file too
        old = pq.read_table(path)
        new = judged(old, _lines(folder / f"{step}.jsonl"), problems)
        with files.replacing(path) as temporary:
            pq.write_table(new, temporary, compression="zstd")
    pairs = zip(old["accuracy"].to_pylist(), new["accuracy"].to_pylist(), strict=True)
    result = Rescored(step, new.num_rows, sum(before != after for before, after in pairs))
    store.event(run, "scored again", step=step, scorer=SCORER, rows=result.rows, changed=result.changed)
    return result


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def judged(table: pa.Table, kept: Iterable[Mapping[str, Any]], problems: Mapping[str, tuple[str, str]]) -> pa.Table:
    """The outcome rows with `accuracy`, `answer` and `scorer` anew.

    Args:
        table: rows of an evaluation (harness/trainer/outcomes.py, EVALUATION).
        kept: verl's dump, one response each: input, output and uid ("<uid>_<sample>_<turn>"). Its gts is not read: an
            earlier version may have altered it.
        problems: from a prompt without typesetting to a problem's name and answer.

    Raises: HarnessError where a row has no kept response, or a response no problem.
    """
    import pyarrow as pa

    verdicts, found = {}, dict[str, tuple[str, str]]()
    for line in kept:
        text = str(line["input"])
        if text not in found:
            found[text] = _named(text, problems)
        name, truth = found[text]
        sample = int(str(line["uid"]).rsplit("_", 2)[1])
        verdicts[name, sample] = score(str(line["output"]), truth)
    keys = list(zip(table["problem"].to_pylist(), table["sample"].to_pylist(), strict=True))
    for key in keys:
        if key not in verdicts:
            raise HarnessError(f"no response was kept of sample {key[1]} of {key[0]}: the outcomes stay as they are")
    fresh = {
        "accuracy": [float(verdicts[key].correct) for key in keys],
        "answer": [verdicts[key].answer for key in keys],
        "scorer": [SCORER] * len(keys),
    }
    for name, values in fresh.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    return table


def _named(text: str, problems: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    plain = squeezed(text)
    found = [prompt for prompt in problems if prompt in plain]
    if not found:
        raise HarnessError(f"a kept response has a prompt of no evaluation set: {text[:80]!r}")
    return problems[max(found, key=len)]  # one prompt may be part of another
