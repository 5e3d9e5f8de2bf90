"""CSV files: W&B chart exports, with one column a run, and plain logs, with one column a metric."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis import aliases
from analysis.run import Run
from analysis.sources import names as names_of
from analysis.sources import rows
from analysis.sources.rows import Gather, Rows
from harness.errors import HarnessError, nearest

_SEPARATOR = " - "  # W&B: "<run> - <metric>"
_BOUNDS = ("__MIN", "__MAX")


@dataclass(slots=True)
class _Log:
    """One run while files are read."""

    parts: list[Rows] = field(default_factory=list)
    """What each file holds of it."""
    own_step: bool = False
    """Whether a file counts W&B's own steps."""
    notes: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def load(path: Path) -> list[Run]:
    """The runs of a CSV file, or of every *.csv in a folder (below it where it holds none itself).

    A plain log is one run, named after its file. A W&B chart export holds as many runs as columns; exports of
    several charts in one folder are put together by run name.

    Raises:
        HarnessError: no such file, no step column, steps that are no integers, or no number in it.
    """
    paths = names_of.files(path, ("csv",)) if path.is_dir() else [path]
    called = names_of.stems(paths, path) if path.is_dir() else [path.stem]
    if not paths:
        raise HarnessError(f"no .csv file in {path}: name a CSV file or the folder that holds them")
    logs: dict[str, _Log] = {}
    for file, name in zip(paths, called, strict=True):
        _read(file, name, logs)
    runs = [_run(name, log) for name, log in logs.items()]
    if all(run.last_step is None or not run.metrics for run in runs):
        raise HarnessError(f"{path} holds no number: export a chart or a log with a step column and metrics")
    return names_of.named(runs)


def _read(path: Path, called: str, logs: dict[str, _Log]) -> None:
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            header = file.readline()
            delimiter = max(",;\t", key=header.count)
            names = next(csv.reader([header], delimiter=delimiter), [])
            lines = [line for line in csv.reader(file, delimiter=delimiter) if line]
    except OSError as error:
        raise HarnessError(f"{path} cannot be read ({error.strerror}): check path and permissions") from None
    except csv.Error as error:
        raise HarnessError(f"{path} is no CSV file ({error}): check its quotes") from None
    at = _step_column(path, names)
    targets = _targets(called, names, at)
    here = {run: logs.setdefault(run, _Log()) for run, _ in targets.values()}
    steps: dict[str, list[int]] = {run: [] for run in here}
    cells = {run: Gather() for run in here}
    damaged, text = 0, dict.fromkeys(targets, 0)
    for line in lines:
        step = _number(line[at]) if len(line) == len(names) else None
        if step is None or not math.isfinite(step) or abs(step) > 2**53:
            damaged += 1
            continue
        if step != int(step):
            raise HarnessError(f"{path}: {names[at]}={line[at]} is no integer: export against the training step")
        values: dict[str, dict[str, float]] = {run: {} for run in here}
        for column, (run, metric) in targets.items():
            cell = line[column].strip()
            value = _number(cell)
            if value is not None:
                values[run][metric] = value
            elif cell:
                text[column] += 1
        for run, found in values.items():
            if found:
                steps[run].append(int(step))
                cells[run].add(found)
    for run, log in here.items():
        log.parts.append(cells[run].rows(steps[run]))
        log.files.append(str(path))
        if damaged:
            log.notes.append(f"{path.name}: {damaged} of {len(lines)} rows are damaged and left out")
    for column, count in text.items():
        if count:
            log = here[targets[column][0]]
            log.notes.append(f"{path.name}: {count} cells of column {names[column]!r} hold no number")
    if names[at] == "Step":
        for log in here.values():
            log.own_step = True
            log.notes.append(f"{path.name}: the step is W&B's own, which differs from verl's in resumed runs")


def _step_column(path: Path, names: Sequence[str]) -> int:
    lowered = [name.strip().lower() for name in names]
    for known in aliases.STEPS:
        if known in lowered:
            return lowered.index(known)
    raise HarnessError(f"{path} has no step column ({nearest('step', names)}): rename one of its columns to `step`")


def _targets(called: str, names: Sequence[str], at: int) -> dict[int, tuple[str, str]]:
    """Column -> (run, metric). A chart export is told by its column names: all are `<run> - <metric>`."""
    others = [(column, name.strip()) for column, name in enumerate(names) if column != at and name.strip()]
    chart = bool(others) and all(_SEPARATOR in name for _, name in others)
    if not chart:
        return {column: (called, name) for column, name in others}
    return {column: (parts[0], parts[1]) for column, name in others if (parts := name.rsplit(_SEPARATOR, 1))}


def _number(text: str) -> float | None:
    try:
        return float(text)  # takes nan, inf and Infinity, in any case
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.strip().lower())


def _run(name: str, log: _Log) -> Run:
    stitched, notes = rows.stitch(log.parts, rows.OWN_STEP if log.own_step else rows.STEP)
    history, nan_steps = rows.frame(stitched)
    binned = []
    for metric in [column for column in history.columns if f"{column}{_BOUNDS[0]}" in history.columns]:
        bounds = [history[f"{metric}{bound}"] for bound in _BOUNDS if f"{metric}{bound}" in history.columns]
        # Equal bounds carry nothing; others say that W&B averaged several logged values into one point.
        if all(bound.equals(history[metric]) for bound in bounds):
            history = history.drop(columns=[bound.name for bound in bounds])
        else:
            binned.append(metric)
    if binned:
        notes.append(f"points of {', '.join(binned)} are averages over several steps or runs, as W&B drew them")
    return Run(
        id=name,
        label=name,
        source="csv",
        history=history,
        nan_steps=nan_steps,
        notes=(*dict.fromkeys(log.notes), *notes),
        files=tuple(log.files),
    )
