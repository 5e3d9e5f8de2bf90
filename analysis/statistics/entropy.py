"""Entropy collapse and explosion, read off a run's curve by stated rules. Numpy only: live status uses it
too.

A curve is smoothed by a running median of 5 points and compared with its own early level, the median of its
first tenth (at least 5 points), so that one set of rules serves models whose entropies differ tenfold. "On
end" is 5 points or 2 % of the curve, whichever is more.

    collapsed  the smoothed curve lies at or below 0.2 of the early level, or at or below 0.05 nats and half
               of the early level, on end
    exploded   it lies at or above 3 times the early level on end
    falling    it lost 30 % over the latest quarter (at least 10 points; fitted in logarithms) and lies below
               0.7 of the early level; or it lies at or below half of the early level on end and still does
    rising     it grew by half over the latest quarter and lies above 1.5 times the early level; or it lies at
               or above twice the early level on end and still does
    diverged   the last value is NaN or infinite
    short      fewer than 10 finite values: no judgement
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.errors import HarnessError

Verdict = Literal["steady", "collapsed", "exploded", "falling", "rising", "diverged", "short"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The thresholds; the defaults are those of the module's text."""

    smooth: int = 5
    """Points of the running median."""
    early: float = 0.1
    """Share of the curve that gives the early level, at least `smooth` points."""
    collapse: float = 0.2
    """Collapsed at or below this share of the early level."""
    floor: float = 0.05
    """Collapsed at or below this many nats, if that is half of the early level or less."""
    explosion: float = 3.0
    """Exploded at or above this multiple of the early level; a single raw value there is a spike."""
    hold: int = 5
    """For how many points on end, at least."""
    hold_share: float = 0.02
    """And for which share of the curve."""
    window: float = 0.25
    """Share of the curve whose slope is judged, at least 10 points."""
    fall: float = 0.3
    """Falling if at least this share was lost over the window."""
    rise: float = 0.5
    """Rising if it grew by at least this share over the window."""
    low: float = 0.5
    """Falling too if it stays at or below this share of the early level."""
    high: float = 2.0
    """Rising too if it stays at or above this multiple of the early level."""
    shortest: int = 10
    """Finite values below which nothing is judged."""

    def __post_init__(self) -> None:
        if not 0 < self.collapse < 1 < self.explosion:
            raise HarnessError(
                f"collapse={self.collapse}, explosion={self.explosion}: shares of the early level, the first"
                " within (0, 1), the second above 1"
            )
        if self.smooth < 1 or self.hold < 1 or self.shortest < 2:
            raise HarnessError(
                f"smooth={self.smooth}, hold={self.hold}, shortest={self.shortest}: counts of points, at least"
                " 1, 1 and 2"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What was found, in nats."""

    verdict: Verdict
    began: int | None = None
    """The training step at which it began: the first of the points on end, or of the window that falls or
    rises.
    """
    ongoing: bool = True
    """False where a collapse or explosion was over by the end of the curve."""
    early: float = float("nan")
    """The early level."""
    last: float = float("nan")
    """The smoothed value at the end."""
    change: float = 0.0
    """Relative change over the latest window, as fitted: -0.3 lost 30 %."""
    spikes: tuple[int, ...] = ()
    """Steps whose raw value was at or above the explosion level."""

    @property
    def alarming(self) -> bool:
        """Whether a person should look."""
        return self.verdict in ("collapsed", "exploded", "diverged")

    @property
    def text(self) -> str:
        """One line for people."""
        if self.verdict == "short":
            return "too short to judge"
        if self.verdict == "diverged":
            return f"NaN or infinite from step {self.began}"
        if self.verdict in ("collapsed", "exploded"):
            end = "" if self.ongoing else ", over by the end"
            levels = f"early {self.early:.3g}, last {self.last:.3g} nats"
            return f"{self.verdict} from step {self.began} ({levels}{end})"
        if self.verdict in ("falling", "rising"):
            return f"{self.verdict} since step {self.began} (early {self.early:.3g}, last {self.last:.3g} nats)"
        return f"steady (early {self.early:.3g}, last {self.last:.3g} nats)"


def judge(steps: ArrayLike, entropy: ArrayLike, rules: Rules | None = None) -> Health:
    """Judges one curve.

    Args:
        steps: (n,) training steps, ascending.
        entropy: (n,) nats a token; NaN and infinities count as missing unless they are the last.

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
    if len(raw) and not finite[-1]:
        last_good = np.flatnonzero(finite)
        return Health(verdict="diverged", began=int(at[last_good[-1] + 1 if len(last_good) else 0]))
    at, raw = at[finite], raw[finite]
    if len(raw) < rules.shortest:
        return Health(verdict="short")
    early = float(np.median(raw[: max(rules.smooth, round(len(raw) * rules.early))]))
    smooth = running_median(raw, rules.smooth)
    change, window = _change(at, smooth, rules)
    found = _sustained(at, smooth, early, rules)
    verdict: Verdict = "steady"
    began: int | None = None
    ongoing = True
    if found is not None:
        verdict, began, ongoing = found
    elif change <= -rules.fall and smooth[-1] < (1 - rules.fall) * early:
        verdict, began = "falling", window
    elif change >= rules.rise and smooth[-1] > (1 + rules.rise) * early:
        verdict, began = "rising", window
    elif (start := _lasting(smooth <= rules.low * early, rules)) is not None:
        verdict, began = "falling", int(at[start])
    elif (start := _lasting(smooth >= rules.high * early, rules)) is not None:
        verdict, began = "rising", int(at[start])
    spikes = tuple(int(step) for step in at[raw >= rules.explosion * early]) if early > 0 else ()
    return Health(
        verdict=verdict,
        began=began,
        ongoing=ongoing,
        early=early,
        last=float(smooth[-1]),
        change=change,
        spikes=spikes,
    )


def running_median(values: Floats, width: int) -> Floats:
    """Centred running median of the same length; the window shrinks at the ends."""
    if len(values) == 0:
        return values.copy()
    half = width // 2
    padded = np.concatenate((np.full(half, np.nan), values, np.full(half, np.nan)))
    return np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)


def _sustained(at: NDArray[np.int64], smooth: Floats, early: float, rules: Rules) -> tuple[Verdict, int, bool] | None:
    """The collapse or explosion that came first; one that still lasts wins over one that is over."""
    low = max(rules.collapse * early, min(rules.floor, 0.5 * early))
    events: list[tuple[bool, int, Verdict]] = []
    for verdict, outside in (("collapsed", smooth <= low), ("exploded", smooth >= rules.explosion * early)):
        start = first_run(outside, _hold(smooth, rules))
        if start is not None:
            events.append((not bool(outside[-1]), int(at[start]), verdict))  # type: ignore[arg-type]
    if not events:
        return None
    over, began, verdict = min(events)
    return verdict, began, not over


def _lasting(outside: NDArray[np.bool_], rules: Rules) -> int | None:
    """Index from which the curve has been outside until its end, if that is long enough."""
    start = 0 if outside.all() else len(outside) - int(np.argmin(outside[::-1]))
    return start if len(outside) - start >= _hold(outside, rules) else None


def _hold(curve: NDArray[Any], rules: Rules) -> int:
    return max(rules.hold, round(len(curve) * rules.hold_share))


def first_run(true: NDArray[np.bool_], length: int) -> int | None:
    """Index at which the first `length` true values on end begin, or None."""
    if len(true) < length:
        return None
    whole = np.lib.stride_tricks.sliding_window_view(true, length).all(axis=1)
    return int(whole.argmax()) if whole.any() else None


def _change(at: NDArray[np.int64], smooth: Floats, rules: Rules) -> tuple[float, int]:
    """(relative change over the latest window by a line through the logarithms, first step of the window)."""
    size = min(len(smooth), max(10, round(len(smooth) * rules.window)))
    x, y = at[-size:].astype(np.float64), np.log(np.maximum(smooth[-size:], 1e-9))
    x = x - x.mean()
    slope = float((x * y).sum() / (x * x).sum())
    return float(np.expm1(slope * (x[-1] - x[0]))), int(at[-size])
