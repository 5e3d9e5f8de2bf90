"""Random entropy curves of known kinds, and what a person would call each: the detector's truth.

Every kind is one draw of n values, the whole training; `t` below runs from 0 at the first to 1 at the last. `right`
holds the verdicts that a person would accept. It was written down before the rules were tuned; where a kind cannot be
told at 12 values ("cannot say yet" is then fair) or leaves no trace in so few, `right_short` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
CALM = frozenset({"steady"})
LENGTHS = (12, 40, 200, 1000)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of curve."""

    name: str
    right: frozenset[str]
    draw: Draw
    right_short: frozenset[str] = frozenset()
    """Accepted at 12 values too, `short` always."""

    def accepts(self, verdict: str, n: int) -> bool:
        """Whether a person would accept the verdict on a curve of n values."""
        return verdict in self.right or (n < 20 and (verdict == "short" or verdict in self.right_short))


def _noisy(level: Callable[[Floats], Floats], scatter: float = 0.05) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> Floats:
        return level(np.linspace(0, 1, n)) * np.exp(rng.normal(0, scatter, n))

    return draw


def _counted(level: Callable[[NDArray[np.int64], int], Floats], scatter: float = 0.05) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> Floats:
        return level(np.arange(n), n) * np.exp(rng.normal(0, scatter, n))

    return draw


def _wandering(rng: np.random.Generator, n: int) -> Floats:
    """Logarithms that follow an AR(.95) of standard deviation .25 about .6 nats."""
    shocks = rng.normal(0, 0.25 * np.sqrt(1 - 0.95**2), n)
    shocks[0] = rng.normal(0, 0.25)
    for i in range(1, n):
        shocks[i] += 0.95 * shocks[i - 1]
    return 0.6 * np.exp(shocks)


def _gone(where: Callable[[NDArray[np.int64], int], NDArray[np.bool_]], value: float = np.nan) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> Floats:
        return np.where(where(np.arange(n), n), value, 0.6 * np.exp(rng.normal(0, 0.05, n)))

    return draw


def _spikes(rng: np.random.Generator, n: int) -> Floats:
    curve = 0.6 * np.exp(rng.normal(0, 0.05, n))
    curve[rng.choice(np.arange(5, n), max(1, n // 50), replace=False)] *= 8
    return curve


def _set(*names: str) -> frozenset[str]:
    return frozenset(names)


HEALTHY: tuple[Kind, ...] = (
    Kind("level .6, scatter .05", CALM, _noisy(lambda t: 0.6 + 0 * t)),
    Kind("level .6, scatter .2", CALM, _noisy(lambda t: 0.6 + 0 * t, 0.2)),
    Kind("level .6, scatter .5", CALM, _noisy(lambda t: 0.6 + 0 * t, 0.5)),
    Kind("level 2, scatter .2", CALM, _noisy(lambda t: 2 + 0 * t, 0.2)),
    Kind("wanders, AR(.95) of sd .25", CALM, _wandering),
    Kind("warm start, .9 to .4 in the first 10 %", CALM, _noisy(lambda t: 0.4 + 0.5 * np.exp(-30 * t))),
    Kind(
        "warm start, .9 to .4 in the first 10 %, scatter .2", CALM, _noisy(lambda t: 0.4 + 0.5 * np.exp(-30 * t), 0.2)
    ),
    Kind("sine, .2 to 1, five periods", CALM, _noisy(lambda t: 0.6 + 0.4 * np.sin(10 * np.pi * t))),
    Kind("single spikes of 8 times", CALM, _spikes),
    Kind("linear, .6 to .5", CALM, _noisy(lambda t: 0.6 - 0.1 * t)),
    Kind("level .1, scatter .2", CALM, _noisy(lambda t: 0.1 + 0 * t, 0.2)),
    Kind("level .1, scatter .5", CALM, _noisy(lambda t: 0.1 + 0 * t, 0.5)),
    Kind("level .03, scatter .1", _set("low"), _noisy(lambda t: 0.03 + 0 * t, 0.1)),
    Kind("level .03, scatter .5", _set("low"), _noisy(lambda t: 0.03 + 0 * t, 0.5)),
    Kind("low, .03 to .1", _set("rising"), _noisy(lambda t: 0.03 + 0.07 * t, 0.1)),
)
"""Nothing to be alarmed about."""

DRIFTING: tuple[Kind, ...] = (
    Kind("linear, .6 to .2", _set("falling"), _noisy(lambda t: 0.6 - 0.4 * t)),
    Kind("linear, .6 to .2, scatter .2", _set("falling"), _noisy(lambda t: 0.6 - 0.4 * t, 0.2)),
    Kind("linear, .6 to .15", _set("falling"), _noisy(lambda t: 0.6 - 0.45 * t)),
    Kind("low, .08 to .045", _set("falling"), _noisy(lambda t: 0.08 - 0.035 * t, 0.1), _set("low", "steady")),
    Kind("linear, .5 to 1.2", _set("rising"), _noisy(lambda t: 0.5 + 0.7 * t)),
)
"""On the way; a warning is right, an alarm is not."""

ILL: tuple[Kind, ...] = (
    Kind("collapse in the first 5 %, .6 to .02", _set("collapsed"), _noisy(lambda t: 0.02 + 0.58 * np.exp(-100 * t))),
    Kind("collapse after 1 step, .6 to .02", _set("collapsed"), _counted(lambda i, n: np.where(i < 1, 0.6, 0.02))),
    Kind("collapse after 3 steps, .6 to .02", _set("collapsed"), _counted(lambda i, n: np.where(i < 3, 0.6, 0.02))),
    Kind("collapse after 3 steps, 1.2 to .1", _set("collapsed"), _counted(lambda i, n: np.where(i < 3, 1.2, 0.1))),
    Kind("collapse at half, .6 to .06", _set("collapsed"), _noisy(lambda t: np.where(t > 0.5, 0.06, 0.6))),
    Kind("collapse at half, .6 to .06, scatter .5", _set("collapsed"), _noisy(lambda t: np.where(t > 0.5, 0.06, 0.6), 0.5)),
    Kind("collapse at half to zero", _set("collapsed"), _noisy(lambda t: np.where(t > 0.5, 0, 0.6))),
    Kind("collapse in the last 10 %, .6 to .05", _set("collapsed"), _noisy(lambda t: np.where(t > 0.9, 0.05, 0.6))),
    Kind("slow collapse, .6 to .03", _set("collapsed"), _noisy(lambda t: 0.6 * np.exp(-3 * t)), _set("falling")),
    Kind("slow collapse, .6 to .03, scatter .2", _set("collapsed"), _noisy(lambda t: 0.6 * np.exp(-3 * t), 0.2), _set("falling")),
    Kind("collapse, then back", _set("collapsed"), _noisy(lambda t: 0.6 * np.where((t > 0.3) & (t < 0.6), 0.1, 1)), CALM),
    Kind("all zero", _set("collapsed"), _noisy(lambda t: 0 * t)),
    Kind("explosion in the first 10 %, .3 to 8", _set("exploded"), _noisy(lambda t: 0.3 + 7.7 * np.minimum(1, 10 * t))),
    Kind("explosion at half, times 4", _set("exploded"), _noisy(lambda t: 0.6 * np.where(t > 0.5, 4, 1))),
    Kind("explosion at half, times 8, scatter .5", _set("exploded"), _noisy(lambda t: 0.6 * np.where(t > 0.5, 8, 1), 0.5)),
    Kind("explosion in the last 10 %, times 4", _set("exploded"), _noisy(lambda t: 0.6 * np.where(t > 0.9, 4, 1))),
    Kind("explosion in the last 4 steps, times 6", _set("exploded"), _counted(lambda i, n: np.where(i >= n - 4, 3.6, 0.6))),
    Kind("slow explosion, .3 to 3", _set("exploded"), _noisy(lambda t: 0.3 * np.exp(2.3 * t)), _set("rising")),
    Kind("NaN at the end", _set("not a number"), _gone(lambda i, n: i == n - 1)),
    Kind("NaN from half, one number last", _set("not a number"), _gone(lambda i, n: (i >= n // 2) & (i < n - 1))),
    Kind("NaN once inside", _set("not a number"), _gone(lambda i, n: i == n // 3)),
    Kind("infinite once inside", _set("not a number"), _gone(lambda i, n: i == n // 3, np.inf)),
)  # fmt: skip
"""An alarm is right."""

MISSED: tuple[Kind, ...] = (
    Kind("collapse after 1 step, .6 to .1", _set("collapsed"), _counted(lambda i, n: np.where(i < 1, 0.6, 0.1))),
)
"""Where the rules are known to see nothing: the first 5 values have the new level, and no absolute limit is crossed."""

KINDS = HEALTHY + DRIFTING + ILL
ALARMS = frozenset({"collapsed", "exploded", "not a number"})


def verdicts(kind: Kind, n: int, repetitions: int, seed: int, judge: Callable[[Floats, Floats], str]) -> dict[str, int]:
    """Verdict -> how many of the draws got it. The same seed gives the same curves, whatever else was drawn."""
    counts: dict[str, int] = {}
    for repetition in range(repetitions):
        curve = kind.draw(np.random.default_rng([seed, n, repetition]), n)
        found = judge(np.arange(1, n + 1), curve)
        counts[found] = counts.get(found, 0) + 1
    return counts
