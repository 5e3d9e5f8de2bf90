"""The verbs `data prepare` and `data show`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from harness import files
from harness.errors import HarnessError
from harness.store.runs import now
from harness.tasks.data import catalogue, check, hub, prepared, problem, table
from harness.tasks.data.catalogue import Source

_MOST_UNUSABLE = 0.01
"""Share of a training set's rows that may lack an answer before the file is refused."""


@dataclass(frozen=True, slots=True)
class Result:
    """What `prepare` did."""

    path: Path
    rows: int
    content: str
    fresh: bool
    """False where the same file had been prepared before."""
    repeats: int = 0
    contradictions: int = 0
    unusable: int = 0


def prepare(name: str, project: Path, given: Path | None = None, split: str | None = None) -> Result:
    """Builds NAME.parquet in the data folder from `given` or from the hub, unless it is there already.

    Raises: HarnessError where the set is unknown, cannot be had, or is not what it is said to be.
    """
    source = catalogue.find(name, split if given is not None else None)
    path = prepared.folder(project) / f"{name}.parquet"
    if given is None and path.is_file() and not prepared.is_outdated(path):
        made = prepared.read(path)
        return Result(path, len(made), prepared.content(path), fresh=False)
    origin = given if given is not None else hub.fetch(source)
    problems, unusable = _problems(source, origin)
    checked = check.check(source, problems, origin.name)
    made = prepared.rows(source, checked.problems)
    before = prepared.content(path) if path.is_file() and not prepared.is_outdated(path) else None
    about = {
        "name": name, "split": source.split, "data_source": source.data_source, "prepared": now(),
        "from": origin.name if given is not None else source.url, "from_sha256": _sha256(origin),
        "repeats_dropped": checked.repeats, "contradictions_dropped": checked.contradictions,
        "unusable_dropped": unusable,
    }  # fmt: skip
    content = prepared.write(path, made, about)
    return Result(path, len(made), content, before != content, checked.repeats, checked.contradictions, unusable)


def _problems(source: Source, origin: Path) -> tuple[list[problem.Problem], int]:
    """The problems of a file, and how many rows of a training set have no usable answer; a few do."""
    found: list[problem.Problem] = []
    unusable, first = 0, ""
    for i, row in enumerate(table.read(origin)):
        try:
            found.append(problem.read(row))
        except HarnessError as error:
            unusable, first = unusable + 1, first or f"row {i + 1}: {error}"
            if source.split != "train":
                break
    if unusable and (source.split != "train" or unusable > _MOST_UNUSABLE * (len(found) + unusable)):
        raise HarnessError(f"{source.name}: {origin.name}, {first}")
    return found, unusable


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def told(result: Result) -> str:
    """One line about what was done."""
    dropped = [
        f"{count} {what} dropped"
        for count, what in (
            (result.repeats, "repeated rows"),
            (result.contradictions, "problems with two answers"),
            (result.unusable, "rows without an answer"),
        )
        if count
    ]
    state = "prepared" if result.fresh else "unchanged"
    return f"{state}: {result.path}  {result.rows} problems, content {result.content[:10]}" + (
        f", {', '.join(dropped)}" if dropped else ""
    )


def show(name: str, count: int, project: Path) -> str:
    """The first `count` problems of a prepared set as the model sees them, with their ids and answers.

    Raises: HarnessError where it is not prepared.
    """
    path = prepared.folder(project) / f"{name}.parquet"
    if not path.is_file():
        catalogue.find(name)
    return shown(path, count)


def shown(path: Path, count: int) -> str:
    """The first `count` rows of a file in verl's format."""
    made = prepared.read(path)
    about = path.with_suffix(".json")
    source = files.read_json(about).get("from", "") if about.is_file() else ""
    lines = [f"{path}: {len(made)} problems" + (f", from {source}" if source else "")]
    for row in made[:count]:
        lines += [
            "",
            f"--- {row['data_source']}/{row['extra_info']['index']}  answer: {row['reward_model']['ground_truth']}",
            *(f"[{message['role']}] {message['content']}" for message in row["prompt"]),
        ]
    return "\n".join(lines)
