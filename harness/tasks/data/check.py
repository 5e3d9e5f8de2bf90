"""Whether a file holds the set that it is said to hold: counts, repeats, answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.tasks.data.catalogue import Source
from harness.tasks.data.prepared import is_prepared
from harness.tasks.data.problem import Problem
from harness.tasks.scoring.markup import squeezed
from harness.tasks.scoring.truth import shortest


@dataclass(frozen=True, slots=True)
class Checked:
    """What stays of a file, and what was dropped."""

    problems: tuple[Problem, ...]
    """Each once, in the file's order."""
    repeats: int = 0
    """Rows dropped as copies of earlier ones."""
    contradictions: int = 0
    """Problems dropped because the file gives them different answers."""


def check(source: Source, problems: Sequence[Problem], file: str) -> Checked:
    """The problems of a set, each once.

    A training set loses its repeats and contradictions; an evaluation set with either is refused, because every row of
    it would be counted as a problem. Raises: HarnessError saying what the file seems to be instead.
    """
    counts = Counter(problem.id for problem in problems)
    if source.split == "train":
        checked = _once(problems)
    else:
        _refuse_repeats(source, counts, len(problems), file)
        checked = Checked(tuple(problems))
    _check_count(source, len(checked.problems), file)
    for problem in checked.problems:
        if source.whole_numbers and not shortest(problem.answer).removeprefix("-").isdecimal():
            raise HarnessError(
                f"{source.name}: {file}: answer {problem.answer!r} of problem {problem.id} is no whole number, "
                f"as all of {source.name} are: {_remedy(source)}"
            )
    return checked


def _once(problems: Sequence[Problem]) -> Checked:
    answers: dict[str, set[str]] = {}
    for problem in problems:
        answers.setdefault(problem.id, set()).add(squeezed(shortest(problem.answer)))
    torn = {id for id, given in answers.items() if len(given) > 1}
    kept = {p.id: p for p in reversed(problems) if p.id not in torn}  # the first of each wins
    ordered = tuple(kept[id] for id in answers if id in kept)
    return Checked(ordered, repeats=len(problems) - len(answers), contradictions=len(torn))


def _refuse_repeats(source: Source, counts: Counter[str], rows: int, file: str) -> None:
    if rows == len(counts):
        return
    times = set(counts.values())
    often = f"each {times.pop()} times" if len(times) == 1 else f"some up to {max(times)} times"
    raise HarnessError(
        f"{source.name}: {file} has {rows} rows but only {len(counts)} problems, {often}: every row would count as a "
        f"problem of its own. The harness draws several responses a problem itself (evaluation.samples): "
        f"{_remedy(source)}"
    )


def _check_count(source: Source, count: int, file: str) -> None:
    least, most = source.least or 1, source.most
    if count >= least and (most is None or count <= most):
        return
    expected = f"{least}" if least == most else f"{least} to {most}"
    raise HarnessError(
        f"{source.name}: {file} has {count} problems, {source.name} has {expected}"
        + (f" ({source.note})" if source.note else "")
        + f": {_remedy(source)}"
    )


def refuse_repeated_file(path: Path, key: str) -> None:
    """Raises: HarnessError where an evaluation file that we did not prepare holds a prompt more than once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix != ".parquet" or is_prepared(path):
        return
    try:
        prompts = pq.read_table(path, columns=["prompt"])["prompt"].to_pylist()
    except (pa.ArrowException, KeyError, OSError) as error:
        raise HarnessError(f"{key}={path}: no parquet file in verl's format ({' '.join(str(error).split())})") from None
    distinct = len({str(prompt) for prompt in prompts})
    if distinct < len(prompts):
        raise HarnessError(
            f"{key}={path}: {len(prompts)} rows but only {distinct} prompts: repeated already, so every copy would "
            f"count as a problem; give each problem once and set evaluation.samples={len(prompts) // distinct}"
        )


def _remedy(source: Source) -> str:
    return f"use {source.url}" if source.url else "give a file with each problem once"
