"""Which checkpoints of a run stay: the last ones, the best one, every so many steps."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WANTED = "wanted"
"""A file of an evaluation that was asked for and not taken back: until it is done, its checkpoint stays."""
_STEP = re.compile(rb'^\{"step": (\d+)')
_PASS = re.compile(rb'"eval/pass@1": ([-+0-9.eE]+)')


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept beside the newest whole checkpoint, which always stays: a run goes on from it."""

    last: int = 1
    """The latest so many."""
    best: bool = False
    """The one with the highest evaluated pass@1, the earlier one of equals."""
    every: int | None = None
    """Those at multiples of so many steps."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Policy:
        """The policy of a frozen run's settings."""
        return cls(int(config.get("keep_checkpoints", 1)), bool(config.get("keep_best")), config.get("keep_every"))


def kept(steps: Collection[int], policy: Policy, scores: Mapping[int, float]) -> set[int]:
    """The steps of whole checkpoints that stay. `scores` maps evaluated steps to pass@1."""
    ordered = sorted(steps)
    stay = set(ordered[-max(1, policy.last) :])
    if policy.every:
        stay |= {step for step in ordered if step % policy.every == 0}
    judged = [step for step in ordered if step in scores]
    if policy.best and judged:
        stay.add(max(judged, key=lambda step: (scores[step], -step)))
    return stay


def scores(log: Path) -> dict[int, float]:
    """Evaluated step -> pass@1, mean of the benchmarks, from a run's metrics.jsonl."""
    found: dict[int, float] = {}
    try:
        data = log.read_bytes()
    except OSError:
        return found
    for line in data.splitlines():
        step, value = _STEP.match(line), _PASS.search(line)
        if step and value:
            found[int(step[1])] = float(value[1])
    return found


def wanted(folder: Path) -> set[int]:
    """Steps of a run's folder whose checkpoints evaluations need."""
    asked = (path.parent for path in folder.glob(f"evaluations/step_*/{WANTED}"))
    return {int(place.name.rpartition("_")[2]) for place in asked if not (place / "done.json").exists()}


def also(folder: Path, steps: Sequence[int], policy: Policy) -> set[int]:
    """What stays by `best` and `every` in a run's folder, whatever its age."""
    if not policy.best and not policy.every:
        return set()
    return kept(steps, policy, scores(folder / "metrics.jsonl") if policy.best else {})
