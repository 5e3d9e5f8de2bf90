"""How small a difference a design can show."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from harness.errors import HarnessError


def standard_error(by_problem: ArrayLike) -> float:
    """Standard error of a mean over problems, sd / sqrt(n), from one value a problem (its mean over samples
    and seeds).

    Over problems, never over problems x samples: samples of one problem are not independent of each other.
    """
    x = np.asarray(by_problem, dtype=np.float64)
    if x.ndim != 1 or x.size < 2:
        raise HarnessError(f"a standard error over problems from shape {x.shape}: give one value for each of 2 or more")
    return float(x.std(ddof=1) / math.sqrt(x.size))


def expected_error(problems: int, mean: float, samples: int, agreement: float = 0.57) -> float:
    """The standard error to expect before anything was run.

    Args:
        mean: expected success rate, in (0, 1).
        agreement: share of the variance mean (1 - mean) that lies between problems: 0 if all are equally
            hard, 1 if each is always or never solved. 0.57 gives the 6.4 points that 30 problems of mean 0.3
            show at 32 samples.
    """
    if problems < 2 or samples < 1 or not 0 < mean < 1 or not 0 <= agreement <= 1:
        raise HarnessError(
            f"problems={problems}, mean={mean}, samples={samples}, agreement={agreement}: expected at least"
            " 2, within (0, 1), at least 1, within [0, 1]"
        )
    variance = mean * (1 - mean)
    return math.sqrt(variance * (agreement + (1 - agreement) / samples) / problems)


def minimum_detectable(error: float, alpha: float = 0.05, power: float = 0.8, freedom: float = math.inf) -> float:
    """The true difference that a two-sided test at `alpha` finds with probability `power`: (t + t') * error.

    `error` is the standard error of the difference itself: of paired differences where both arms answered the
    same problems. The unit is that of `error`. `freedom` are Student's degrees of freedom: three seeds an arm need
    a third more than a normal distribution says.
    """
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise HarnessError(f"alpha={alpha}, power={power}: each lies between 0 and 1, for example 0.05 and 0.8")
    if math.isinf(freedom):
        return float((ndtri(1 - alpha / 2) + ndtri(power)) * error)
    return float((stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, power)) * error)
