"""GPU-hours of the points of a plan: measured where such runs have trained, else estimated, else from time limits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.config import reference
from harness.config.settings import Settings
from harness.planning import gpu_hours
from harness.planning.plan import Planned
from harness.store import usage
from harness.store.runs import Store

MEASURED, ESTIMATED, LIMIT = "measured", "estimate", "time limit"
_MOST_READ = 12
"""So many runs of one kind tell its pace well enough."""


@dataclass(frozen=True, slots=True)
class Hours:
    """GPU-hours that a run still needs, and how they are known."""

    value: float
    source: str
    """MEASURED: from step times of such runs; ESTIMATED: see harness.planning.gpu_hours; LIMIT: one time limit."""


def forecast(entries: Sequence[Planned], store: Store | None) -> dict[str, Hours]:
    """Run -> what it still needs; runs that take no GPU are left out, and done ones need nothing."""
    runs = {entry.id: entry for entry in entries if _gpus(entry.composed.settings)}
    paces = _paces(store, list(runs.values())) if store is not None else {}
    estimated: dict[Any, float] = {}
    found = {}
    for run, entry in runs.items():
        found[run] = _hours(entry, paces, estimated)
    return found


def _hours(entry: Planned, paces: Mapping[Any, float], estimated: dict[Any, float]) -> Hours:
    settings, gpus = entry.composed.settings, _gpus(entry.composed.settings)
    if entry.state.kind == "done":
        return Hours(0.0, MEASURED)
    share = 1 - min(entry.state.step, settings.steps) / settings.steps
    pace = paces.get(_kind(settings))
    if pace is not None:
        return Hours(share * settings.steps * pace * gpus / 3600, MEASURED)
    # Seeds and baselines of one kind cost the same, so that a grid asks for a handful of estimates.
    key = (_kind(settings), entry.composed.asked.get("algorithm", {}).get("filter_groups", {}).get("enable"))
    if key not in estimated:
        estimated[key] = gpu_hours.gpu_hours(settings, reference.laid_over(reference.load(), entry.composed.asked))
    if estimated[key]:
        return Hours(share * estimated[key], ESTIMATED)
    return Hours(settings.cluster.hours * gpus, LIMIT)


def _gpus(settings: Settings) -> int:
    return settings.model.resources.gpus * settings.model.resources.nodes


def _kind(settings: Settings) -> tuple[Any, ...]:
    """Runs of one kind take equally long a step."""
    return (settings.model, settings.recipe, settings.data, settings.evaluation, settings.steps)


def _paces(store: Store, entries: Sequence[Planned]) -> dict[Any, float]:
    """Kind -> seconds a step, start, evaluation, saves and lost work included: the median of what ran for a while."""
    seconds: dict[Any, list[float]] = {}
    for entry in entries:
        known = seconds.setdefault(_kind(entry.composed.settings), [])
        if entry.state.step and len(known) < _MOST_READ:
            attempts = store.attempts(entry.id)
            beat = store.heartbeat(entry.id)
            until = float(beat["time"]) if isinstance(beat.get("time"), int | float) else time.time()
            taken = sum(usage.seconds(attempt, until) for attempt in attempts)
            if taken > 0:
                known.append(taken / entry.state.step)
    return {kind: statistics.median(values) for kind, values in seconds.items() if values}


def used(entries: Sequence[Planned], store: Store) -> float:
    """GPU-hours that these runs have used so far, over all their attempts."""
    total = 0.0
    for run, entry in {entry.id: entry for entry in entries}.items():
        gpus = _gpus(entry.composed.settings)
        if not gpus or not entry.state.attempts:
            continue
        beat = store.heartbeat(run).get("time")
        until = float(beat) if isinstance(beat, int | float) and entry.state.kind != "running" else time.time()
        total += usage.gpu_hours(store.attempts(run), gpus, until=until)
    return total
