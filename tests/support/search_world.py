"""A simulated store and launcher for K searches: the best rank is known, every run's value is noisy.

Time passes by `advance`: each live run trains one step. What goes wrong is told by fields: runs that fail, jobs that
are lost, values that are NaN, entropies that collapse.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness import quantile
from harness.config.typed import construct
from harness.search import space
from harness.search.controller import Controller
from harness.search.journal import Journal
from harness.search.state import Look, Measure, View
from harness.search.study import Rules, Study

GROUP = 16
STEPS, EVERY = 10, 2


def peak(best: int, slope: float = 0.02, top: float = 0.6) -> Callable[[int], float]:
    """pass@1 that falls off linearly on both sides of the best rank."""
    return lambda rank: top - slope * abs(rank - best)


def study(name: str = "synthetic", axes: Any = None, interpolation: str = "exact", **rules: Any) -> Study:
    """A study over all sixteen ranks; `rules` are the typed parts of a study file."""
    given = {"budget": {"runs": 60}, "confirm": {"trials": 2, "seeds": 3, "compare": []}, **rules}
    found = space.read(axes or {"rank": "all"}, GROUP, interpolation, name)
    return Study(name, "", (), found, construct(Rules, given), Path(f"{name}.yaml"), {"space": axes or "all"})


@dataclass
class Simulated:
    """One run."""

    overrides: tuple[str, ...]
    state: str = "absent"
    step: int = 0
    attempts: int = 0
    failures: int = 0
    reason: str = ""


@dataclass
class World:
    """What the controller sees as the store and the cluster."""

    value: Callable[[int], float]
    noise: float = 0.02
    """Standard deviation over seeds."""
    problems: int = 40
    seed: int = 0
    fails: Callable[[int, int], int] = lambda rank, seed: 0
    """How often the run of this rank and seed fails before it succeeds."""
    nan: Callable[[int, int], bool] = lambda rank, seed: False
    sick: Callable[[int], str] = lambda rank: ""
    """Why the entropy of this rank is alarming after half of training."""
    entropy: Callable[[int], float] = lambda rank: 1.0
    pass_k: Callable[[int], float] = lambda rank: 0.8
    hours_a_step: float = 0.1
    exact: bool = True
    """Whether two K of one rank are one run; with linear interpolation they are not."""
    runs: dict[str, Simulated] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    """Every start, in order: a run twice is a second attempt."""
    cancelled: list[str] = field(default_factory=list)
    known: dict[tuple[str, int], Measure] = field(default_factory=dict)
    """Measures by run and last evaluated step."""

    def identify(self, overrides: tuple[str, ...]) -> str:
        """Like the real one, equal for two K of one rank."""
        size = group_size(overrides) if self.exact else 10**6
        key = [
            f"rank={quantile.rank(o.partition('=')[2], size)}" if o.startswith("baseline.K=") else o for o in overrides
        ]
        return hashlib.sha256(" ".join(key).encode()).hexdigest()[:10]

    def look(self, runs: Sequence[str]) -> Mapping[str, Look]:
        return {run: self._look(run) for run in runs}

    def start(self, runs: Mapping[str, tuple[str, ...]], known: Mapping[str, tuple[str, ...]]) -> list[str]:
        assert set(runs) <= set(known)
        for run, overrides in runs.items():
            found = self.runs.setdefault(run, Simulated(overrides))
            if found.state in ("running", "queued", "done"):
                continue
            found.state = "queued"
            found.attempts += 1
            self.started.append(run)
        return list(runs)

    def cancel(self, runs: Sequence[str]) -> None:
        for run in runs:
            if self.runs[run].state in ("running", "queued"):
                self.runs[run].state = "stopped"
                self.cancelled.append(run)

    def hours(self, overrides: tuple[str, ...]) -> float:
        return STEPS * self.hours_a_step

    # ---- the passing of time

    def advance(self) -> None:
        """Every live run trains one step."""
        for run in self.runs.values():
            if run.state == "queued":
                run.state = "running"
            elif run.state == "running":
                run.step += 1
                rank, seed = self.rank(run), self.seed_of(run)
                if run.step == 3 and run.failures < self.fails(rank, seed):
                    run.state, run.step, run.failures, run.reason = "failed", 0, run.failures + 1, "loss is nan"
                elif run.step >= STEPS:
                    run.state = "done"

    def rank(self, run: Simulated) -> int:
        """0 for the mean baseline."""
        levels = [o.partition("=")[2] for o in run.overrides if o.startswith("baseline.K=")]
        return quantile.rank(levels[-1], group_size(run.overrides)) if levels else 0

    def seed_of(self, run: Simulated) -> int:
        return int(next(o for o in reversed(run.overrides) if o.startswith("seed=")).partition("=")[2])

    def draw(self, run: Simulated) -> float:
        """The run's own pass@1: its rank's, and what its seed adds."""
        rank, seed = self.rank(run), self.seed_of(run)
        rng = np.random.default_rng([self.seed, rank, seed])
        return (self.value(rank) if rank else 0.5) + self.noise * float(rng.standard_normal())

    def _look(self, run: str) -> Look:
        found = self.runs.get(run)
        if found is None:
            return Look("absent")
        rank = self.rank(found)
        last = found.step - found.step % EVERY
        if (run, last) not in self.known:
            self.known[run, last] = self._measure(found, last)
        measure = self.known[run, last]
        alarm = self.sick(rank) if found.step >= STEPS // 2 else ""
        if alarm:
            measure = replace(measure, health=alarm)
        hours = self.hours_a_step * found.step
        return Look(
            found.state, found.step, STEPS, found.failures, found.attempts if found.state in ("stopped", "lost") else 0,
            found.reason, hours, measure,
        )  # fmt: skip

    def _measure(self, found: Simulated, last: int) -> Measure:
        rank, seed = self.rank(found), self.seed_of(found)
        steps = range(EVERY, last + 1, EVERY)
        level = math.nan if self.nan(rank, seed) else self.draw(found)
        rng = np.random.default_rng([7, self.seed])
        hardness = 0.1 * rng.standard_normal(self.problems)
        hardness -= hardness.mean()
        scores = {f"simulated/{i}": min(max(level + float(h), 0.0), 1.0) for i, h in enumerate(hardness)}
        return Measure(
            dict.fromkeys(steps, scores), dict.fromkeys(steps, level), dict.fromkeys(steps, self.pass_k(rank)),
            self.entropy(rank),
        )  # fmt: skip


def group_size(overrides: Sequence[str]) -> int:
    """G of a run, sixteen where it is not searched."""
    return int(dict(o.split("=", 1) for o in overrides).get("recipe.group_size", GROUP))


def finish(study: Study, world: World, journal: Path, most: int = 3000) -> View:
    """Ticks until the study is over, time passing in between; returns the last view."""
    controller = Controller(study, Journal(study, journal), world)
    for _ in range(most):
        if not controller.tick() and (view := controller.view()).over:
            return view
        world.advance()
    raise AssertionError(f"not over after {most} ticks")
