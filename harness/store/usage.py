"""GPU-hours that a run has used, over all its attempts."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any


def gpu_hours(attempts: Sequence[Mapping[str, Any]], gpus: int, *, until: float) -> float:
    """Hours of all attempts times the GPUs of all nodes.

    `until` (Unix seconds) ends an attempt that has no end of its own: now while it runs, else its last sign of life.
    """
    return gpus * sum(seconds(attempt, until) for attempt in attempts) / 3600


def seconds(attempt: Mapping[str, Any], until: float) -> float:
    """How long an attempt took; 0 without a start."""
    started, ended = moment(attempt.get("started")), moment(attempt.get("ended"))
    if started is None:
        return 0.0
    return max(0.0, (until if ended is None else ended) - started)


def moment(text: object) -> float | None:
    """Unix seconds of an ISO 8601 time, None where it is none."""
    try:
        return datetime.datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
