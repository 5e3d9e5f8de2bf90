"""The files that a run leaves in its folder while it trains.

heartbeat.json                              rewritten at the start and after every step
metrics.jsonl                               one line a step
outcomes/{train,eval,tokens}/step_000012.parquet
"""

from __future__ import annotations

import json
import math
import numbers
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.files import append_json, read_json_lines, replacing, write_json, write_text
from harness.store import outcome_files

TABLE_METRICS = (
    "actor/entropy",
    "entropy/all",
    "advantage/zero_share",
    "eval/pass@1",
    "eval/pass@16",
    "critic/score/mean",
    "response/length_mean",
    "group/success_rate",
)
"""What the heartbeat carries for the live table."""

KINDS = ("train", "eval", "tokens")


@dataclass(slots=True)
class Records:
    """Writes one run's files; the only state is what the heartbeat showed last."""

    folder: Path
    """The run's folder."""
    attempt: int
    """Number of this attempt."""
    total: int = 0
    """Target step, known once the trainer has read the data."""
    _shown: dict[str, float | None] = field(default_factory=dict)

    def outcomes(self, kind: str, step: int) -> Path:
        """Path of the outcome file of a kind (KINDS) at a step."""
        return outcome_files.path(self.folder, kind, step)

    def write_outcomes(self, kind: str, step: int, table: pa.Table) -> None:
        """Writes a table atomically; the same table gives the same bytes."""
        with replacing(self.outcomes(kind, step)) as path:
            pq.write_table(table, path, compression="zstd")

    def write_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Appends the scalars of a step; what is not finite becomes null, as JSON has no NaN."""
        line = {"step": step, "time": time.time(), "attempt": self.attempt, "metrics": scalars(metrics)}
        append_json(self.folder / "metrics.jsonl", line)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Lines of metrics.jsonl in the order of their steps, the last one of each step."""
        lines, _ = read_json_lines(self.folder / "metrics.jsonl")
        by_step = {line["step"]: line for line in lines if isinstance(line.get("step"), int)}
        return [by_step[step] for step in sorted(by_step)]

    def rewind(self, step: int) -> None:
        """Drops what an earlier attempt recorded after `step`: those steps will be trained anew from the checkpoint."""
        kept = [line for line in self.read_metrics() if line["step"] <= step]
        path = self.folder / "metrics.jsonl"
        if path.exists():
            write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))
        for kind in KINDS:
            for trained, file in outcome_files.by_step(self.folder, kind).items():
                if trained > step:
                    file.unlink()

    def show(self, lines: Sequence[Mapping[str, Any]], step: int) -> None:
        """Lets the heartbeat of a resumed run carry what was logged up to `step`."""
        for line in lines:
            if line["step"] <= step:
                self._remember(line["metrics"])

    def _remember(self, metrics: Mapping[str, Any]) -> None:
        values = scalars(metrics)
        self._shown |= {name: values[name] for name in TABLE_METRICS if values.get(name) is not None}

    def beat(
        self, phase: str, step: int, seconds: float | None = None, metrics: Mapping[str, Any] | None = None
    ) -> None:
        """Shows that the run lives.

        Args:
            phase: start, train, eval, save or end.
            step: the last completed step.
            seconds: what that step took.
            metrics: of that step; the last ones stay until new ones come.
        """
        if metrics is not None:
            self._remember(metrics)
        write_json(
            self.folder / "heartbeat.json",
            {
                "time": time.time(),
                "step": step,
                "total": self.total,
                "phase": phase,
                "step_seconds": seconds,
                "metrics": self._shown,
            },
        )


def scalars(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """The numbers among logged values as plain floats and integers; not finite ones as None."""
    result: dict[str, float | None] = {}
    for name, value in metrics.items():
        if hasattr(value, "item") and getattr(value, "size", 1) in (1,):
            value = value.item()
        if isinstance(value, bool | numbers.Real):
            number = int(value) if isinstance(value, numbers.Integral) else float(value)
            result[name] = number if math.isfinite(number) else None
    return result
