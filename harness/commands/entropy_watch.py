"""Entropy collapse and explosion of many runs at once, each run's log read only where it has grown."""

from __future__ import annotations

import contextlib
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import files
from harness.errors import HarnessError

_STEP = b'{"step": '
_ATTEMPT = b'"attempt": '
_ENTROPY = (b'"entropy/all": ', b'"actor/entropy": ')
"""analysis.statistics.entropy.METRICS, as they stand in a line."""
_TRAINED = b'"training/global_step": '
"""In every line of a training step, and not in those of an evaluation before the first."""
_NUMBER = re.compile(rb"null|NaN|-?Infinity|[-+0-9.eE]+")
_RULES = 2
"""Of what was kept in _cache: to be raised when the rules of analysis.statistics.entropy change."""


@dataclass(slots=True)
class _Attempt:
    """What one attempt logged."""

    steps: list[int] = field(default_factory=list)
    trained: list[int] = field(default_factory=list)
    entropy: dict[bytes, dict[int, float]] = field(default_factory=lambda: {name: {} for name in _ENTROPY})


def flags(root: Path, runs: Iterable[str]) -> dict[str, str]:
    """Run -> `collapsed`, `exploded, over`, `falling` and so on; healthy runs are left out.

    What was found is kept in <root>/_cache/entropy.json, by the size of each log.
    """
    path = root / "_cache" / "entropy.json"
    known = _known(path)
    fresh: dict[str, Any] = {}
    for run in runs:
        log = root / run / "metrics.jsonl"
        try:
            status = log.stat()
        except OSError:
            continue
        mark = [_RULES, status.st_ino, status.st_size]
        before = known.get(run)
        fresh[run] = before if before and before["mark"] == mark else {"mark": mark, "flag": flag(log)}
    if any(known.get(run) != entry for run, entry in fresh.items()):
        with contextlib.suppress(OSError):  # a store that is not ours to write is read anew each time
            files.write_json(path, {**known, **fresh})
    return {run: entry["flag"] for run, entry in fresh.items() if entry["flag"]}


def flag(log: Path) -> str:
    """What analysis.statistics.entropy says of the entropy in one metrics.jsonl, '' where nothing is wrong."""
    curve = read(log)
    steps = sorted(curve)
    values = [curve[step] for step in steps]
    if calm(values):
        return ""
    from analysis.statistics.entropy import judge

    return judge(steps, values).flag


def calm(values: list[float]) -> bool:
    """Whether a curve keeps so close to its early level that no rule of analysis.statistics.entropy can find anything.

    Its rules begin at 0.7 and 1.5 times the median of the first 5 values, and at 0.05 nats; most runs never get
    there, and need no numpy.
    """
    if not values:
        return True
    early = statistics.median(values[:5])
    return all(max(0.7 * early, 0.05) < value < 1.5 * early for value in values)  # false for NaN


def read(log: Path) -> dict[int, float]:
    """Step -> entropy, nats a token; NaN where it was not finite. Like the report's reader (analysis.sources), a later
    line of a step wins, and a later attempt from its first step on: what was logged beyond it was undone.

    The lines are searched, not parsed: they hold a hundred other numbers.
    """
    try:
        data = log.read_bytes()
    except OSError:
        return {}
    attempts: dict[float, _Attempt] = {}
    for line in data[: data.rfind(b"\n") + 1].split(b"\n"):  # what follows the last line end is being written
        if not line.startswith(_STEP) or not line.endswith(b"}"):  # torn by a crash
            continue
        number = _NUMBER.match(line, len(_STEP))
        if number is None or not number[0].isdigit():
            continue
        step = int(number[0])
        attempt = _number(line, _ATTEMPT) or 1.0
        known = attempts.setdefault(attempt, _Attempt())
        known.steps.append(step)
        if _TRAINED in line:
            known.trained.append(step)
        for name in _ENTROPY:
            value = _number(line, name)
            if value is not None:
                known.entropy[name][step] = value
    curves: dict[bytes, dict[int, float]] = {name: {} for name in _ENTROPY}
    told = any(known.trained for known in attempts.values())
    for _, known in sorted(attempts.items()):
        first = min(known.trained if told else known.steps, default=math.inf)
        for name, curve in curves.items():
            curves[name] = {step: v for step, v in curve.items() if step < first} | known.entropy[name]
    return next((curve for curve in curves.values() if curve), {})


def _number(line: bytes, name: bytes) -> float | None:
    at = line.find(name)
    found = _NUMBER.match(line, at + len(name)) if at >= 0 else None
    if found is None:
        return None
    return math.nan if found[0] == b"null" else float(found[0])


def _known(path: Path) -> Mapping[str, Any]:
    try:
        content = files.read_json(path)
    except (FileNotFoundError, HarnessError):
        return {}
    return content if isinstance(content, dict) else {}
