"""Entropy collapse and explosion of many runs at once, each run's log read only where it has grown."""

from __future__ import annotations

import contextlib
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness import files
from harness.errors import HarnessError

_STEP = b'{"step": '
_ENTROPY = (b'"entropy/all": ', b'"actor/entropy": ')
_NUMBER = re.compile(rb"null|[-+0-9.eE]+")
_SHORTEST = 10
"""Steps below which nothing is judged (analysis.statistics.entropy)."""


def flags(root: Path, runs: Iterable[str]) -> dict[str, str]:
    """Run -> `collapsed`, `exploded`, `falling`, `rising` or `diverged`; runs in good health are left out.

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
        mark = [status.st_ino, status.st_size]
        before = known.get(run)
        fresh[run] = before if before and before["mark"] == mark else {"mark": mark, "verdict": verdict(log)}
    if any(known.get(run) != entry for run, entry in fresh.items()):
        with contextlib.suppress(OSError):  # a store that is not ours to write is read anew each time
            files.write_json(path, {**known, **fresh})
    return {run: entry["verdict"] for run, entry in fresh.items() if entry["verdict"] not in ("steady", "short")}


def verdict(log: Path) -> str:
    """The verdict of analysis.statistics.entropy on the entropy in one metrics.jsonl."""
    curve = read(log)
    if len(curve) < _SHORTEST:
        return "short"
    steps = sorted(curve)
    values = [curve[step] for step in steps]
    if calm(values):
        return "steady"
    from analysis.statistics.entropy import judge

    return judge(steps, values).verdict


def calm(values: list[float]) -> bool:
    """Whether a curve keeps so close to its early level that no rule of analysis.statistics.entropy can find anything.

    Its rules begin at 0.7 and 1.5 times the median of the first tenth; most runs never get there, and need no numpy.
    """
    early = statistics.median(values[: max(5, round(len(values) * 0.1))])
    return all(0.7 * early < value < 1.5 * early for value in values)  # false for NaN


def read(log: Path) -> dict[int, float]:
    """Step -> entropy, nats a token; NaN where it was not finite. A later line of a step wins (a resumed run).

    The lines are searched, not parsed: they hold a hundred other numbers.
    """
    curve: dict[int, float] = {}
    try:
        data = log.read_bytes()
    except OSError:
        return curve
    for line in data.split(b"\n"):
        if not line.startswith(_STEP):
            continue
        for name in _ENTROPY:
            at = line.find(name)
            if at >= 0:
                break
        step, value = _NUMBER.match(line, len(_STEP)), _NUMBER.match(line, at + len(name)) if at >= 0 else None
        if step and value and step[0].isdigit():
            curve[int(step[0])] = math.nan if value[0] == b"null" else float(value[0])
    return curve


def _known(path: Path) -> Mapping[str, Any]:
    try:
        content = files.read_json(path)
    except (FileNotFoundError, HarnessError):
        return {}
    return content if isinstance(content, dict) else {}
