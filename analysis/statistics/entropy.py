"""Entropy collapse and explosion, read off a run's curve by stated rules. Numpy only: live status uses it too.

The early level is the median of the first 5 values that the log holds. Once they are there it never changes, and
every alarm is raised and withdrawn by values up to its own step alone. So the live prefix of a log gets the same
verdict as the finished curve at that step, and what was said is taken back only where the curve came back.

    collapsed     4 of 5 values on end lie at or below 0.2 of the early level; or at or below 0.05 nats, where
                  that is 0.4 of the early level or less, or one of the first 5 was 0.25 nats or more (a collapse
                  among them). Over once 8 of 10 lie above twice the limit.
    exploded      4 of 5 lie at or above 3 times the early level, 0.3 nats and the highest of the first 5; or at or
                  above 5 nats and twice the lowest of the first 5 (an explosion among them). Over once 8 of 10
                  lie below two thirds of the limit.
    not a number  NaN or infinite at any step; over where finite values follow.
    falling       the level (median of the latest tenth, at least 5 values) is at or below 0.7 of the early level,
                  and 10 % below the lowest level of that width that lies before the latest quarter.
    rising        the level is at or above 1.5 times the early level, and 11 % above the highest before.
    low           the level is at or below 0.05 nats, and nothing collapsed: there was little to lose.
    short         cannot say yet: fewer than 10 values; or fewer than 20 of which the latest 3 lie outside 0.7 to
                  1.5 of the early level without more to go by.
    steady        none of these.

A change from the early level must also exceed three times what the scatter between neighbouring values explains
(from the median of their latest 20 differences, in logarithms). What lasts wins over what is over, an alarm over a
trend, and of two alarms the later one. How often the rules are wrong on curves of
known truth: docs/report.md, by benchmarks/detector.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.errors import HarnessError

Verdict = Literal["steady", "collapsed", "exploded", "falling", "rising", "low", "not a number", "short"]
Alarm = Literal["collapsed", "exploded", "not a number"]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

METRICS = ("entropy/all", "actor/entropy")
"""Where the curve is looked for, in this order: the absolute limits are nats a token, which entropy/all always is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The thresholds; the defaults are those of the module's text."""

    first: int = 5
    """Values whose median is the early level."""
    collapse: float = 0.2
    """Collapsed at or below this share of the early level."""
    floor: float = 0.05
    """Collapsed at or below this many nats, if that is a loss; below it without one, entropy is low."""
    loss: float = 0.4
    """A loss: at or below this share of the early level."""
    start: float = 0.25
    """Or if one of the first values was at or above this many nats."""
    explosion: float = 3.0
    """Exploded at or above this multiple of the early level; a single value there is a spike."""
    least: float = 0.3
    """Nats below which nothing exploded, whatever the multiple."""
    ceiling: float = 5.0
    """Exploded at or above this many nats, if that is twice the lowest of the first values or more."""
    scatter: float = 3.0
    """How many times the scatter between neighbouring values a change has to exceed."""
    fall: float = 0.7
    """Falling at or below this share of the early level."""
    rise: float = 1.5
    """Rising at or above this multiple of the early level."""
    fresh: float = 0.1
    """And if it lies at least this share below the lowest level before the latest quarter, or above the highest."""
    shortest: int = 10
    """Values below which nothing is judged."""
    sure: int = 20
    """Values below which a curve that has just left its early level is not called steady."""

    def __post_init__(self) -> None:
        if not 0 < self.collapse < self.fall < 1 < self.rise < self.explosion:
            raise HarnessError(
                f"collapse={self.collapse}, fall={self.fall}, rise={self.rise}, explosion={self.explosion}: shares of"
                " the early level, ascending, the first two within (0, 1), the others above 1"
            )
        if self.first < 1 or self.shortest < max(5, self.first):
            raise HarnessError(
                f"first={self.first}, shortest={self.shortest}: counts of values, the second at least 5 and the first"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A collapse, an explosion, or steps without a number."""

    verdict: Alarm
    began: int
    """The first training step that lay beyond the limit."""
    ended: int | None = None
    """The first training step of the recovery; None while it lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What was found, in nats."""

    verdict: Verdict
    began: int | None = None
    """The training step at which it began; of a trend, since which values have stayed beyond its limit."""
    ended: int | None = None
    """Where a collapse, an explosion or steps without a number were over; None while they last."""
    early: float = float("nan")
    """The early level."""
    span: tuple[float, float] = (math.nan, math.nan)
    """The lowest and the highest of the values that it is the median of."""
    last: float = float("nan")
    """The median of the latest 5 values."""
    count: int = 0
    """Values that were finite."""
    start: int | None = None
    """The first step logged, where it is not among the first of training: the early level is that of a later part."""
    spikes: tuple[int, ...] = ()
    """Steps whose value was at or above the multiple that explosions begin at."""
    episodes: tuple[Episode, ...] = ()
    """All alarms of the curve, by their first step."""

    @property
    def ongoing(self) -> bool:
        """False where a collapse, an explosion or steps without a number were over by the end of the curve."""
        return self.ended is None

    @property
    def alarming(self) -> bool:
        """Whether a person should look."""
        return self.verdict in ("collapsed", "exploded", "not a number")

    @property
    def flag(self) -> str:
        """A word or two for a table of many runs; '' where there is nothing to say."""
        if self.verdict in ("steady", "short"):
            return ""
        return self.verdict if self.ongoing else f"{self.verdict}, over"

    @property
    def text(self) -> str:
        """One line for people."""
        if self.verdict == "short":
            return f"cannot say yet ({self.count} values)"
        low, high = self.span
        moved = f" ({low:.3g} to {high:.3g})" if high >= 3 * low > 0 else ""  # already within the first values
        levels = f"early {self.early:.3g}{moved}, last {self.last:.3g} nats" if math.isfinite(self.early) else ""
        levels += f"; the log begins at step {self.start}" if levels and self.start is not None else ""
        if self.alarming:
            parts = [part for part in (levels, "" if self.ongoing else f"over from step {self.ended}") if part]
            others = [e for e in self.episodes if (e.verdict, e.began) != (self.verdict, self.began)]
            parts += [f"also {_words(e)}" for e in others[-2:]]
            own = Episode(verdict=self.verdict, began=self.began or 0)  # type: ignore[arg-type]
            return _words(own) + (f" ({'; '.join(parts)})" if parts else "")
        since = f" since step {self.began}" if self.began is not None else ""
        return f"{self.verdict}{since} ({levels})"


def _words(episode: Episode) -> str:
    name = "NaN or infinite" if episode.verdict == "not a number" else episode.verdict
    return f"{name} from step {episode.began}"


def judge(steps: ArrayLike, entropy: ArrayLike, rules: Rules | None = None) -> Health:
    """Judges one curve, finished or as far as it has come.

    Args:
        steps: (n,) training steps, ascending. They may have gaps and need not begin with the first: the rules count
            values, and the early level is that of the first ones there are.
        entropy: (n,) nats a token, NaN or infinite where that was logged. Leave out steps that logged nothing.

    Raises:
        HarnessError: shapes that differ, or steps that do not ascend.
    """
    rules = rules or Rules()
    at = np.asarray(steps, dtype=np.int64)
    raw = np.asarray(entropy, dtype=np.float64)
    if at.ndim != 1 or at.shape != raw.shape:
        raise HarnessError(f"steps {at.shape} and entropy {raw.shape}: give one value a step")
    if (np.diff(at) <= 0).any():
        raise HarnessError("steps do not ascend: keep one value a step, the later one of a resumed run")
    finite = np.isfinite(raw)
    episodes = _not_numbers(at, finite)
    at, raw = at[finite], raw[finite]
    if len(raw) < rules.shortest:
        found = episodes[-1] if episodes else None
        return Health(
            verdict=found.verdict if found else "short",
            began=found.began if found else None,
            ended=found.ended if found else None,
            count=len(raw),
            episodes=tuple(episodes),
        )
    early = float(np.median(raw[: rules.first]))
    scatter = _scatter(raw)
    episodes = sorted([*episodes, *_alarms(at, raw, early, scatter, rules)], key=lambda e: e.began)
    verdict: Verdict = "steady"
    began: int | None = None
    ended: int | None = None
    if episodes:
        worst = max(episodes, key=lambda e: (e.ended is None, e.began))
        verdict, began, ended = worst.verdict, worst.began, worst.ended
    else:
        verdict, began = _trend(at, raw, early, float(scatter[-1]), rules)
    spikes = tuple(int(step) for step in at[raw >= rules.explosion * early]) if early > 0 else ()
    return Health(
        verdict=verdict,
        began=began,
        ended=ended,
        early=early,
        span=(float(raw[: rules.first].min()), float(raw[: rules.first].max())),
        last=float(np.median(raw[-5:])),
        count=len(raw),
        start=int(at[0]) if at[0] > max(1, at[1] - at[0]) else None,
        spikes=spikes,
        episodes=tuple(episodes),
    )


def of(has: Callable[[str], bool]) -> str | None:
    """The name under which a run logged its entropy, given whether it logged a name; None where it did not."""
    return next((name for name in METRICS if has(name)), None)


def _not_numbers(at: NDArray[np.int64], finite: Flags) -> list[Episode]:
    """One episode from the first value that is none to the last one that a number follows, and one that lasts."""
    good = np.flatnonzero(finite)
    end = int(good[-1]) + 1 if len(good) else 0
    bad = np.flatnonzero(~finite[:end])
    found = [Episode(verdict="not a number", began=int(at[bad[0]]), ended=int(at[bad[-1] + 1]))] if len(bad) else []
    return found + ([Episode(verdict="not a number", began=int(at[end]))] if end < len(at) else [])


def _alarms(at: NDArray[np.int64], raw: Floats, early: float, scatter: Floats, rules: Rules) -> list[Episode]:
    """Every collapse and explosion; at any step at most one lasts, and the opposite one ends it. One that comes back
    before the opposite one is the same.
    """
    first = raw[: rules.first]
    peak, ceiling = float(first.max()), max(rules.ceiling, 2 * float(first.min()))
    floor = rules.floor if peak >= rules.start else 0.0
    below = max(rules.collapse * early, min(rules.floor, rules.loss * early), floor)
    above = min(max(rules.explosion * early, rules.least, peak), ceiling)
    wide = np.exp(rules.scatter * scatter)  # at each value, from those before it
    enter: dict[Alarm, Flags] = {
        "collapsed": raw <= np.maximum(np.minimum(below, early / wide), floor),
        "exploded": raw >= np.minimum(np.maximum(above, early * wide), ceiling),
    }
    # Scatter that grows once a curve has left takes nothing back.
    leave: dict[Alarm, Flags] = {"collapsed": raw > 2 * below, "exploded": raw < above / 1.5}
    entered = {verdict: _most(beyond, 5) for verdict, beyond in enter.items()}
    left = {verdict: _most(back, 10) for verdict, back in leave.items()}
    found: list[Episode] = []
    place = 0
    while True:
        begins = {verdict: hits[place:].argmax() + place for verdict, hits in entered.items() if hits[place:].any()}
        if not begins:
            return _merged(found)
        verdict = min(begins, key=lambda v: begins[v])
        place = int(begins[verdict])
        start = place - 4 + int(enter[verdict][place - 4 : place + 1].argmax())
        over = left[verdict].copy()
        for other, hits in entered.items():
            over |= hits if other != verdict else False
        over[: place + 1] = False
        if not over.any():
            return _merged([*found, Episode(verdict=verdict, began=int(at[start]))])
        place = int(over.argmax())
        width = 10 if left[verdict][place] else 5
        back = np.flatnonzero(~enter[verdict][: place + 1])
        back = back[back > max(start, place - width)]
        found.append(Episode(verdict=verdict, began=int(at[start]), ended=int(at[back[0]])))


def _merged(episodes: list[Episode]) -> list[Episode]:
    found: list[Episode] = []
    for episode in episodes:
        if found and found[-1].verdict == episode.verdict:
            found[-1] = Episode(verdict=episode.verdict, began=found[-1].began, ended=episode.ended)
        else:
            found.append(episode)
    return found


def _trend(
    at: NDArray[np.int64], raw: Floats, early: float, scatter: float, rules: Rules
) -> tuple[Verdict, int | None]:
    """What a curve without alarms does, and since which step."""
    n = len(raw)
    width = max(5, n // 10)
    levels = np.median(np.lib.stride_tricks.sliding_window_view(raw, width), axis=1)
    level = float(levels[-1])
    before = levels[: max(1, n - max(width, n // 4) - width + 1)]
    # 1.25 is what a median costs against a mean; the early level has 5 values, the others `width`
    beyond_early = math.exp(rules.scatter * scatter * 1.25 * math.sqrt(1 / rules.first + 1 / width))
    fresh = 1 / (1 - rules.fresh)
    short = np.median(np.lib.stride_tricks.sliding_window_view(raw, 5), axis=1)
    if level <= early * min(rules.fall, 1 / beyond_early) and level * fresh <= float(before.min()):
        return "falling", _since(at, short <= rules.fall * early)
    if level >= early * max(rules.rise, beyond_early) and level >= fresh * float(before.max()):
        return "rising", _since(at, short >= rules.rise * early)
    if n < rules.sure and not rules.fall * early < float(np.median(raw[-3:])) < rules.rise * early:
        return "short", None
    return ("low" if level <= rules.floor else "steady"), None


def _since(at: NDArray[np.int64], beyond: Flags) -> int:
    """The step from which a running median has stayed beyond a limit until the end."""
    inside = np.flatnonzero(~beyond)
    return int(at[min(inside[-1] + 1 if len(inside) else 0, len(beyond) - 1) + 2])  # 2: the middle of its 5 values


def _scatter(raw: Floats) -> Floats:
    """Standard deviation of the logarithms as their latest 20 differences give it, for each value from those before."""
    steps = np.abs(np.diff(np.log(np.maximum(raw, 1e-6))))
    padded = np.concatenate((np.full(20, np.nan), steps))
    padded[19] = 0.0  # the first value has none
    # 0.6745 of a normal spread lies within its quartiles; a difference has twice the variance of a value
    return np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, 20), axis=1) / 0.6745 / math.sqrt(2)


def _most(true: Flags, width: int) -> Flags:
    """At each place, whether four fifths of the latest `width` are true; false where there are fewer."""
    counts = np.convolve(true, np.ones(width, dtype=np.int64))[: len(true)]
    enough = counts >= 4 * width // 5
    enough[: width - 1] = False
    return enough
