"""The quantile baseline in exact arithmetic: rank, interval of equal K, regime, query weights.

Source: Quantile Advantage Estimation, arXiv 2509.22611: the definition of b_K, Prop. 4.1, eqs. 7-8.
Plain Python, so that planning a sweep needs neither numpy nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

from harness.errors import HarnessError, nearest

MASKS = ("both", "positive", "negative")
"""Which advantages are masked: `both` is QAE, `positive` the paper's POS-MASK, `negative` its NEG-MASK."""

INTERPOLATIONS = ("exact", "linear")
"""`exact` is the definition inf{x : F(x) >= K}; `linear` is what `torch.quantile` computes by default."""

Number = float | Decimal | Fraction | str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileSettings:
    """The node `algorithm.qae` of a verl config, checked on construction (HarnessError)."""

    K: float
    """Quantile level in (0, 1): queries with success rate <= 1 - K count as hard."""
    mask: str = "both"
    """One of MASKS."""
    interpolation: str = "exact"
    """One of INTERPOLATIONS; `linear` exists for the mask `both` only."""
    norm_by_std: bool = True
    """Divide by the group's standard deviation, as GRPO does."""
    success_threshold: float | None = None
    """Reward from which a response is a success. Only the masks read it; two reward values need none."""

    def __post_init__(self) -> None:
        level(self.K)
        _check_name("mask", self.mask, MASKS)
        _check_name("interpolation", self.interpolation, INTERPOLATIONS)
        if self.interpolation == "linear" and self.mask != "both":
            raise HarnessError(
                f"interpolation=linear with mask={self.mask}: the masks follow the regime of the exact "
                "quantile and never read an interpolated value; use interpolation=exact"
            )
        if not isinstance(self.norm_by_std, bool):
            raise HarnessError(f"norm_by_std={self.norm_by_std!r}: use true or false")
        if self.success_threshold is not None:
            exact(self.success_threshold, "success_threshold")

    @classmethod
    def read(cls, node: Mapping[str, Any] | None) -> QuantileSettings:
        """Settings from the mapping at `algorithm.qae`; no node, no K and unknown keys are errors."""
        if node is None or node.get("K") is None:
            raise HarnessError("algorithm.qae.K is not set: choose a quantile level, +algorithm.qae.K=0.4")
        names = [field.name for field in fields(cls)]
        for key in node:
            if key not in names:
                raise HarnessError(f"algorithm.qae.{key}: unknown key, {nearest(str(key), names)}")
        return cls(**{str(key): node[key] for key in node})


def level(K: Number) -> Fraction:
    """K as the exact decimal that a person wrote, checked to lie in (0, 1).

    A float stands for its shortest decimal (`repr`): 0.14 means 14/100 and not the binary number next to it,
    because ceil(K * G) is off by one in binary floating point for e.g. K=0.14, G=50.

    Raises: HarnessError where K is no number or not strictly between 0 and 1.
    """
    value = exact(K, "K")
    if not 0 < value < 1:
        raise HarnessError(f"K={K}: the quantile level lies strictly between 0 and 1; the paper uses 0.4")
    return value


def rank(K: Number, group_size: int) -> int:
    """ceil(K * group_size), exactly: b_K is the rank-th smallest reward of the group, counted from 1."""
    return math.ceil(level(K) * _checked_size(group_size))


def interval(rank: int, group_size: int) -> tuple[Fraction, Fraction]:
    """(low, high): every K with low < K <= high has this rank, so all of them are one experiment.

    Raises: HarnessError where no K has that rank.
    """
    if not 1 <= rank <= _checked_size(group_size):
        raise HarnessError(f"rank={rank}: a group of {group_size} has the ranks 1 to {group_size}")
    return Fraction(rank - 1, group_size), Fraction(rank, group_size)


def short_level(rank: int, group_size: int) -> str:
    """The shortest decimal K of this rank; of several the one nearest to the middle of its interval.

    Raises: HarnessError where no K has that rank.
    """
    low, high = interval(rank, group_size)
    digits, fitting = 0, range(0)
    while not fitting:
        digits += 1
        scale = 10**digits
        fitting = range(math.floor(low * scale) + 1, min(math.floor(high * scale), scale - 1) + 1)
    middle = (low + high) / 2 * scale
    return f"{min(fitting, key=lambda n: abs(n - middle)) / scale:.{digits}f}"


def is_hard(successes: int, group_size: int, K: Number) -> bool:
    """Whether b_K is the failure's reward, i.e. successes / group_size <= 1 - K.

    Asked as "at least ceil(K * G) failures": then the rank-th smallest of two-valued rewards is a failure.
    """
    if not 0 <= successes <= _checked_size(group_size):
        raise HarnessError(f"successes={successes}: a group of {group_size} has 0 to {group_size} successes")
    return group_size - successes >= rank(K, group_size)


def mean_weight(p: Number) -> float:
    """Weight sqrt(p (1 - p)) of a query with success rate p under GRPO, on both signs (Prop. 4.1)."""
    rate = _checked_rate(p)
    return math.sqrt(rate * (1 - rate))


def quantile_weights(p: Number, K: Number, mask: str = "both") -> tuple[float, float]:
    """Weights (positive side, negative side) of a query with success rate p under QAE (Prop. 4.1).

    Hard queries (p <= 1 - K) weigh sqrt(p / (1 - p)) on successes, easy ones sqrt((1 - p) / p) on failures.
    With `positive` only the successes of easy queries are masked, with `negative` only the failures of hard
    ones (eqs. 7-8); the sides that stay keep these same weights. A query with p in {0, 1} has no advantages.
    """
    _check_name("mask", mask, MASKS)
    rate, gate = _checked_rate(p), 1 - level(K)
    if rate in (0, 1):
        return 0.0, 0.0
    hard = rate <= gate
    positive = hard or mask == "negative"
    negative = not hard or mask == "positive"
    return (
        math.sqrt(rate / (1 - rate)) if positive else 0.0,
        math.sqrt((1 - rate) / rate) if negative else 0.0,
    )


def exact(value: Number, name: str) -> Fraction:
    """The number that a person wrote, as an exact fraction; a HarnessError with `name` where it is none."""
    try:
        if isinstance(value, bool):
            raise ValueError("a truth value")
        if isinstance(value, float):  # numpy's float64 is one, and its own repr is not a number
            return Fraction(repr(float(value)))
        if isinstance(value, Decimal | Rational):
            return Fraction(value)
        if isinstance(value, str | Real):  # narrower floats print the decimal that was written
            return Fraction(str(value).strip())
        raise ValueError("no number")
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise HarnessError(f"{name}={value!r}: expected a decimal number such as 0.4") from error


def _checked_size(group_size: int) -> int:
    if isinstance(group_size, bool) or not isinstance(group_size, Integral) or group_size < 1:
        raise HarnessError(f"group_size={group_size}: a group has a whole number of responses, at least 1")
    return group_size


def _checked_rate(p: Number) -> Fraction:
    rate = exact(p, "p")
    if not 0 <= rate <= 1:
        raise HarnessError(f"p={p}: a success rate lies between 0 and 1")
    return rate


def _check_name(key: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise HarnessError(f"{key}={value}: use one of {', '.join(valid)}")
