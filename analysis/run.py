"""A training run as every source gives it, and tidy frames over many of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis import aliases
from harness.errors import HarnessError, nearest

Source = Literal["harness", "local", "wandb", "csv", "console"]
State = Literal["finished", "failed", "crashed", "running", "unknown"]
STATES: tuple[State, ...] = ("finished", "failed", "crashed", "running", "unknown")
_MISSING = object()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Run:
    """One run, whatever it was read from. Two records are equal only if they are the same object."""

    id: str
    """Unique within its source; the harness's ten hex digits where it made the run."""
    label: str
    """What a legend shows."""
    source: Source
    history: pd.DataFrame
    """Column `step` (int64, the training step, unique, ascending) and one float64 column a metric, NaN
    where the metric was not logged at that step. Steps at which a logged value really was NaN are in
    `nan_steps`."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Nested."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    state: State = "unknown"
    group: str | None = None
    tags: tuple[str, ...] = ()
    created: datetime | None = None
    """With a time zone (UTC)."""
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    """What was lost, stitched, shifted or duplicated on reading: for the report's warnings."""
    nan_steps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Metric -> the steps at which NaN itself was logged. Most runs have none."""
    files: tuple[str, ...] = ()
    """Where the history came from: paths, or one W&B address."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics in the order of the log."""
        return tuple(str(name) for name in self.history.columns if name != "step")

    @property
    def last_step(self) -> int | None:
        """The last training step with a row, or None for a run without history."""
        return int(self.history["step"].iloc[-1]) if len(self.history) else None

    def get(self, key: str, default: Any = _MISSING) -> Any:
        """The config value at a dotted key: `run.get("baseline.K")`. Without a default, absence is an
        error."""
        value = lookup(self.config, key, _MISSING)
        if value is not _MISSING:
            return value
        if default is not _MISSING:
            return default
        hint = nearest(key, leaves(self.config))
        raise HarnessError(f"run {self.label} ({self.id}) has no config key {key!r}; {hint or 'it is empty'}")

    @property
    def K(self) -> float | None:
        """The quantile level; None for a baseline without one, and where a config holds something else there."""
        found = self.get("baseline.K", None)
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None

    @property
    def seed(self) -> int | str | None:
        """The seed; None where it is unknown, and where a config holds something else there."""
        found = self.get("seed", None)
        return found if isinstance(found, int | str) else None

    def resolve(self, name: str) -> str | None:
        """The name under which this run logged the metric `name` (see `analysis.aliases`), or None."""
        return aliases.resolve(name, set(self.metrics))

    def has(self, name: str) -> bool:
        """Whether the metric, or an alias of it, was logged."""
        return self.resolve(name) is not None

    def metric(self, name: str, *, finite: bool = False) -> pd.Series:
        """The metric's values, float64, indexed by training step, under the name asked for.

        Holds exactly the steps at which the metric was logged: steps without it are left out, values that
        really are NaN or infinite stay in (unless `finite`), so that a diverged run is not mistaken for a
        silent one.

        Raises:
            HarnessError: the run never logged it; the text names the nearest metrics that exist.
        """
        actual = self.resolve(name)
        if actual is None:
            hint = nearest(name, self.metrics) or "it logged none"
            raise HarnessError(f"run {self.label} ({self.id}) has no metric {name!r}; {hint}")
        values = self.history[actual].to_numpy(dtype=np.float64, na_value=np.nan)
        steps = self.history["step"].to_numpy()
        if finite:
            logged = np.isfinite(values)
        else:
            logged = ~np.isnan(values)
            if actual in self.nan_steps:
                logged |= np.isin(steps, self.nan_steps[actual])
        return pd.Series(values[logged], index=pd.Index(steps[logged], name="step"), name=name)


def lookup(mapping: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """The value at a dotted key of a nested mapping; keys that hold dots are found too, list items by
    number."""
    value: Any = mapping
    parts = key.split(".")
    while parts:
        if isinstance(value, Mapping):
            for length in range(1, len(parts) + 1):
                head = ".".join(parts[:length])
                if head in value:
                    value, parts = value[head], parts[length:]
                    break
            else:
                return default
        elif isinstance(value, (list, tuple)) and parts[0].isdigit() and int(parts[0]) < len(value):
            value, parts = value[int(parts[0])], parts[1:]
        else:
            return default
    return value


def leaves(mapping: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """The dotted keys of a nested mapping."""
    for key, value in mapping.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def tidy(runs: Iterable[Run], metrics: Sequence[str], by: Sequence[str] = ()) -> pd.DataFrame:
    """One row a logged value: columns run (id), label, step, metric (as asked), value, and one a key of `by`.

    `by` names config keys (`baseline.K`), or the record's own `state`, `group`, `source`; a run without the
    key gets None. A run that lacks one of the metrics contributes no row for it.

    Raises:
        HarnessError: none of the runs has a metric that was asked for: never an empty plot.
    """
    runs = list(runs)
    pieces: list[pd.DataFrame] = []
    seen: set[str] = set()
    for run in runs:
        extra = {key: _by(run, key) for key in by}
        for name in metrics:
            if not run.has(name):
                continue
            seen.add(name)
            series = run.metric(name)
            piece = pd.DataFrame(
                {
                    "run": run.id,
                    "label": run.label,
                    "step": series.index,
                    "metric": name,
                    "value": series.to_numpy(),
                }
            )
            for key, value in extra.items():
                piece[key] = [value] * len(piece)
            pieces.append(piece)
    for name in metrics:
        if name not in seen and runs:
            known = {other for run in runs for other in run.metrics}
            hint = nearest(name, known) or "they logged none"
            raise HarnessError(f"none of {len(runs)} runs has the metric {name!r}; {hint}")
    columns = ["run", "label", "step", "metric", "value", *by]
    if not pieces:
        return pd.DataFrame(columns=columns)
    return pd.concat(pieces, ignore_index=True)[columns]


def _by(run: Run, key: str) -> Any:
    value = lookup(run.config, key, _MISSING)
    if value is _MISSING:
        value = getattr(run, key) if key in ("state", "group", "source") else None
    return value
