"""What a run is worth so far, from its outcome files and its curve."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError
from harness.search.state import Measure
from harness.search.study import Constraints, Objective
from harness.store.runs import Store

if TYPE_CHECKING:
    from analysis.run import Run


def measure(folder: Path, objective: Objective, constraints: Constraints, total: int) -> Measure:
    """Reads outcomes/eval and metrics.jsonl of a run; what is not there yet is empty or NaN.

    Raises: HarnessError where a validation set that the study names was not evaluated, or accuracies are not 0 or 1.
    """
    from analysis.sources import tally
    from analysis.sources.store import load_run

    run = load_run(folder, history="harness")
    found = tally.read(run)
    chosen = objective.benchmarks or found.benchmarks
    for name in chosen:
        if found.steps and name not in found.benchmarks:
            raise HarnessError(
                f"objective.benchmarks: run {folder.name} has no {name!r}, it evaluates {', '.join(found.benchmarks)}"
            )
    scores, points, second = {}, {}, {}
    for step in found.steps:
        evaluation = found.at(step)
        problems = [p for p in evaluation.problems if p[0] in chosen]
        if not problems:
            continue
        names = [f"{benchmark}/{problem}" for benchmark, problem in problems]
        values = evaluation.scores(1, problems)
        scores[step] = dict(zip(names, map(float, values), strict=True))
        points[step] = _mean(problems, values)
        if objective.pass_k <= found.samples:
            second[step] = _mean(problems, evaluation.scores(objective.pass_k, problems))
    entropy, alarm = _entropy(run, constraints.part, total)
    return Measure(scores, points, second, entropy, alarm)


def _mean(problems: list[tuple[str, str]], values: Any) -> float:
    """The mean of the benchmarks' means: each counts equally."""
    by: dict[str, list[float]] = {}
    for (benchmark, _), value in zip(problems, values, strict=True):
        by.setdefault(benchmark, []).append(float(value))
    return sum(sum(v) / len(v) for v in by.values()) / len(by)


def _entropy(run: Run, part: float, total: int) -> tuple[float, str]:
    """(mean over the last part of training so far, why the curve is alarming or '')."""
    from analysis.statistics import entropy as detector

    name = detector.of(run.has)
    if name is None:
        return math.nan, ""
    series = run.metric(name)
    health = detector.judge(series.index.to_numpy(), series.to_numpy())
    finite = series[series.abs() < math.inf]
    late = finite[-max(1, round(len(finite) * part)) :]
    level = float(late.mean()) if len(late) else math.nan
    return level, f"entropy {health.text}" if health.alarming and health.ongoing else ""


def hours(store: Store, run: str, spec: Mapping[str, Any], running: bool) -> float:
    """GPU-hours of all attempts so far; hours of the machine for a run without GPUs."""
    resources = spec["config"]["model"]["resources"]
    units = max(1, int(resources.get("gpus") or 0) * int(resources.get("nodes") or 1))
    total = 0.0
    attempts = store.attempts(run)
    for i, attempt in enumerate(attempts):
        began = _unix(attempt.get("started"))
        if began is None:
            continue
        ended = _unix(attempt.get("ended"))
        if ended is None:  # it runs, or died without a word: then its last sign of life ended it
            last = i == len(attempts) - 1
            ended = (
                time.time() if running and last else float(store.heartbeat(run).get("time", began)) if last else began
            )
        total += max(0.0, ended - began)
    return total * units / 3600


def _unix(text: object) -> float | None:
    try:
        return datetime.datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
