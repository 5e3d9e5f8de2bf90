"""A study at one moment: what its journal and the run store say together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.search.space import Cell

LIVE = frozenset({"running", "queued", "unknown"})
"""States of a run that somebody works on, or may work on."""
Scores = Mapping[str, float]
"""pass@1 by problem."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What a run's outcome files and curve say so far."""

    scores: Mapping[int, Scores] = field(default_factory=dict)
    """By evaluated step, per problem; empty before the first evaluation."""
    points: Mapping[int, float] = field(default_factory=dict)
    """pass@1 by evaluated step, the mean of the benchmarks."""
    pass_k: Mapping[int, float] = field(default_factory=dict)
    """pass@k by evaluated step."""
    entropy: float = math.nan
    """Nats a token, mean over the last part of the steps so far; NaN where it was not recorded."""
    health: str = ""
    """Why the entropy curve is alarming; empty while it is not."""

    def value(self, last: int) -> float:
        """Mean pass@1 of the last evaluations; NaN without any. Step 0, before training, never counts."""
        return _mean_last(self.points, last)

    def second(self, last: int) -> float:
        """Mean pass@k of the last evaluations; NaN without any."""
        return _mean_last(self.pass_k, last)


def _mean_last(points: Mapping[int, float], last: int) -> float:
    steps = sorted(step for step in points if step > 0)[-last:]
    return sum(points[step] for step in steps) / len(steps) if steps else math.nan


@dataclass(frozen=True, slots=True)
class Look:
    """One run as the launcher and the store see it."""

    state: str
    """As `harness.store.runs.RunState.kind`, with `lost` for a job that neither queue nor accounting knows any more."""
    step: int = 0
    total: int = 0
    failures: int = 0
    """Attempts that failed."""
    stalled: int = 0
    """Latest attempts on end that saved nothing new, whatever ended them."""
    reason: str = ""
    hours: float = 0.0
    """GPU-hours of all attempts so far."""
    measure: Measure = field(default_factory=Measure)


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One training run of a trial or of a group that it is compared with."""

    seed: int
    run: str
    look: Look

    @property
    def live(self) -> bool:
        """Whether it is in flight."""
        return self.look.state in LIVE


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration."""

    number: int
    """In the journal, from 0."""
    cell: Cell
    status: str
    """`open`, `complete`, `pruned` or `failed`."""
    runs: tuple[SeedRun, ...] = ()
    values: tuple[float, ...] = ()
    """As told; empty while it is open."""
    constraints: Mapping[str, float] = field(default_factory=dict)
    """As told; above 0 is a violation."""
    reason: str = ""
    """Why it was pruned or failed."""

    @property
    def open(self) -> bool:
        """Whether it is still to be told."""
        return self.status == "open"


@dataclass(frozen=True, slots=True)
class View:
    """All that a decision needs."""

    trials: tuple[Trial, ...]
    groups: Mapping[str, tuple[SeedRun, ...]]
    """Runs beside the trials: `mean`, `paper`, `held-out`, and `trial 3` for a finalist's fresh seeds."""
    cells_left: int | None
    """Cells that no trial has; None for a continuum."""
    waiting: bool = False
    """Whether the journal holds a proposal that was never taken up: its asker died."""
    finalists: tuple[int, ...] | None = None
    """Numbers of the trials that the last round is between; None while searching."""
    winner: int | None = None
    over: str = ""
    """Why the study has ended; empty before."""
    left_out: int = 0
    """Cells that a replay spoke against."""
    run_hours: float = 0.0
    """GPU-hours that one run takes: measured where there are finished ones, else estimated."""
    adopted: frozenset[str] = frozenset()
    """Runs that the store had before the study asked for them: they cost it nothing."""

    def everything(self) -> list[SeedRun]:
        """All runs, each once."""
        runs = [r for t in self.trials for r in t.runs] + [r for group in self.groups.values() for r in group]
        return list({r.run: r for r in runs}.values())

    @property
    def spent(self) -> float:
        """GPU-hours of all runs that the study paid for."""
        return sum(r.look.hours for r in self.everything() if r.run not in self.adopted)

    @property
    def started(self) -> int:
        """Runs that the study paid for."""
        return sum(r.run not in self.adopted for r in self.everything())

    @property
    def committed(self) -> float:
        """GPU-hours that live runs will still take."""
        live = [r for r in self.everything() if r.live]
        return sum(max(0.0, self.run_hours - r.look.hours) for r in live)
