"""Arms compared with one baseline arm on the same problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.bootstrap import LEVEL, MIN_SEEDS, Draws, Interval, p_value, percentile
from analysis.effect import minimum_detectable, standard_error
from harness.errors import HarnessError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """One arm minus the baseline arm, in the unit of the scores."""

    interval: Interval
    relative: Interval | None
    """Relative change, (arm - baseline) / baseline; None where the baseline is 0."""
    p: float
    """Two-sided, from the same resamples; not yet adjusted for other comparisons."""
    error: float
    """Standard error of the difference: over seeds and problems, or over problems only below three seeds."""
    detectable: float
    """Difference that such a design finds with 80 % power at 5 %, from `error`."""

    @property
    def method_level(self) -> bool:
        """Whether both arms have the seeds that a claim on the method needs."""
        return self.interval.seeds >= MIN_SEEDS


def difference(draws: Draws, arm: int, against: int, level: float = LEVEL) -> Difference:
    """The difference of two arms of one bootstrap, whose resamples share their problems.

    Args:
        draws: from `bootstrap.resample`.
        arm, against: positions of the arms.

    Raises:
        HarnessError: an arm compared with itself.
    """
    if arm == against:
        raise HarnessError("an arm compared with itself: choose another arm with --against")
    values = draws.values[arm] - draws.values[against]
    base = float(draws.estimates[against])
    estimate = float(draws.estimates[arm]) - base
    seeds = min(draws.seeds[arm], draws.seeds[against])
    error = float(values.std())
    relative = None
    if base > 0 and (draws.values[against] > 0).all():
        relative = percentile(estimate / base, values / draws.values[against], seeds, draws.problems, level)
    return Difference(
        interval=percentile(estimate, values, seeds, draws.problems, level),
        relative=relative,
        p=p_value(values),
        error=error,
        detectable=minimum_detectable(error),
    )


def paired_t(a: Floats, b: Floats) -> tuple[float, float, float]:
    """(mean difference, standard error, t) of two arms by problem: d_i = a_i - b_i, SE = sd(d) / sqrt(n).

    Args:
        a, b: (problems,) one value a problem, the same problems in the same order.

    Raises:
        HarnessError: different shapes, or fewer than two problems.
    """
    if a.shape != b.shape or a.ndim != 1:
        raise HarnessError(f"paired differences of shapes {a.shape} and {b.shape}: give the same problems for both")
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    error = standard_error(d)
    mean = float(d.mean())
    return mean, error, mean / error if error > 0 else float("nan")
