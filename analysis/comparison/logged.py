"""Scores from what runs logged, for runs without outcome files: other people's, or those of a W&B server.

The harness logs `eval/<benchmark>/pass@k`. verl logs `val-core/<benchmark>/acc/mean@N`, the mean over N samples a
problem and then over problems, which is pass@1; its best@N is not pass@N and is not used. Outcomes by problem are not
in a log, so intervals are over seeds alone and there are none below three.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.comparison.arms import Arm, one_a_seed
from analysis.run import Run
from analysis.sources.tally import ALL

_OWN = re.compile(r"eval/(?P<name>.+)/pass@\d+")
_VERL = re.compile(r"val-(?:core|aux)/(?P<name>.+)/acc/mean@\d+")

Floats = NDArray[np.float64]


def benchmarks(run: Run) -> tuple[str, ...]:
    """Sorted names of the evaluation sets whose scores a run logged."""
    return tuple(sorted({m["name"] for n in run.metrics if (m := _OWN.fullmatch(n) or _VERL.fullmatch(n))}))


def curve(run: Run, k: int, benchmark: str = ALL) -> pd.Series | None:
    """pass@k in [0, 1] by step, as it was logged; `ALL` is the mean of the benchmarks. None where it was not."""
    own = f"eval/pass@{k}" if benchmark == ALL else f"eval/{benchmark}/pass@{k}"
    if run.has(own):
        return run.metric(own)
    if k != 1:
        return None
    names = benchmarks(run) if benchmark == ALL else (benchmark,)
    found = [run.metric(name) for b in names if run.has(name := f"val-core/{b}/acc/mean@*")]
    if not found or len(found) < len(names):
        return None
    return pd.concat(found, axis=1, join="inner").mean(axis=1)


def by_seed(arm: Arm, k: int, benchmark: str, step: int) -> Floats | None:
    """(seeds,) pass@k of every seed of an arm at a step; None where a run did not log it there."""
    values = []
    for run in arm.runs:
        found = curve(run, k, benchmark)
        if found is None or step not in found.index or not np.isfinite(found.loc[step]):
            return None
        values.append(float(found.loc[step]))
    return one_a_seed(arm.runs, np.array(values))
