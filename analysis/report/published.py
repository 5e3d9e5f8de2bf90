"""The numbers that the QAE paper published, in percent, to stand beside one's own.

Source: arXiv 2509.22611v2, main results table, the eps_high sweep and the bar chart of the 14B model. The
assignment of
the bar chart's four labels to its bars is our reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from analysis.comparison.arms import Arm

SOURCE = "arXiv 2509.22611v2"


@dataclass(frozen=True, slots=True)
class Published:
    """One published value."""

    model: str
    method: str
    """The baseline's recipe, `Clip-Higher`, `Clip-Cov`, `KL-Cov`, `GSPO` or `DAPO`."""
    qae: bool
    """Whether QAE was added to it."""
    benchmark: str
    k: int
    value: float
    """Percent."""
    clip_high: float = 0.28
    source: str = SOURCE


_TABLE = """
Qwen3-8B-Base      Clip-Higher 0  32.71 56.66  39.69 71.23  92.11 97.50
Qwen3-8B-Base      Clip-Higher 1  34.90 57.92  48.23 71.63  92.97 97.50
Qwen3-8B-Base      Clip-Cov    0  33.02 52.27  42.40 68.58  87.42 96.25
Qwen3-8B-Base      Clip-Cov    1  37.40 56.29  46.04 73.16  90.23 96.25
Qwen3-8B-Base      KL-Cov      0  33.33 45.86  44.90 73.00  86.02 95.00
Qwen3-8B-Base      KL-Cov      1  33.44 51.62  44.69 77.08  87.97 96.25
Qwen3-30B-A3B-Base GSPO        0  31.15 46.59  43.75 67.91  90.00 99.39
Qwen3-30B-A3B-Base GSPO        1  32.50 48.01  47.50 71.72  89.38 97.21
"""
_COLUMNS = (("AIME25", 1), ("AIME25", 16), ("AIME24", 1), ("AIME24", 16), ("AMC23", 1), ("AMC23", 16))
_CLIP_SWEEP = {0.20: 32.29, 0.22: 34.90, 0.24: 34.17, 0.26: 40.63}  # 0.28 is the table's Clip-Higher
_BARS = {("AIME24", False): 56.56, ("AIME25", False): 45.21, ("AIME24", True): 58.96, ("AIME25", True): 46.88}


def _table() -> tuple[Published, ...]:
    rows = []
    for line in _TABLE.strip().splitlines():
        model, method, qae, *values = line.split()
        clip = 4e-4 if method == "GSPO" else 0.28
        rows += [
            Published(model, method, qae == "1", benchmark, k, float(value), clip)
            for (benchmark, k), value in zip(_COLUMNS, values, strict=True)
        ]
    rows += [
        Published("Qwen3-8B-Base", "Clip-Higher", False, "AIME24", 1, value, clip)
        for clip, value in _CLIP_SWEEP.items()
    ]
    rows += [
        Published("Qwen3-14B-Base", "Clip-Higher", qae, benchmark, 1, value)
        for (benchmark, qae), value in _BARS.items()
    ]
    return tuple(rows)


VALUES = _table()
_METHODS = {
    "dapo": "Clip-Higher",
    "dapo_no_clip_higher": "Clip-Higher",  # told apart by its clip ratio, as everywhere
    "clip_higher": "Clip-Higher",
    "clip_cov": "Clip-Cov",
    "kl_cov": "KL-Cov",
    "gspo": "GSPO",
}


def find(arm: Arm, benchmark: str, k: int) -> Published | None:
    """The published value for an arm's model, recipe and baseline, or None where the paper has none.

    Names are compared without case, dots and dashes, and a model's path by its last part. QAE counts with both masks
    at K = 0.4, the paper's default, and beside the other recipes than Clip-Higher at 0.6 too, which the paper takes
    where entropy is low: what K a published number used is not stated by row.
    """
    run = arm.runs[0]
    names = {_plain(str(run.get(key, None) or "").rsplit("/", 1)[-1]) for key in ("model.name", "model.path")}
    method = _METHODS.get(str(run.get("recipe.name", None)).replace("-", "_").lower())
    baseline = run.get("baseline.name", None)
    if baseline not in ("mean", "qae") or run.get("baseline.mask", None) not in (None, "both"):
        return None
    clip, K = run.get("recipe.clip_high", None), run.get("baseline.K", None)
    if K is not None and not (K == 0.4 or (K == 0.6 and method != "Clip-Higher")):
        return None
    wanted = _plain(benchmark.rsplit("/", 1)[-1])
    for value in VALUES:
        if (
            _plain(value.model) in names
            and (value.method, value.qae, value.k) == (method, baseline == "qae", k)
            and _plain(value.benchmark) in (wanted, wanted.replace("20", "", 1))
            # Clip-Cov and KL-Cov do not clip by eps_high: what their recipe writes there tells nothing apart.
            and (clip is None or value.method.endswith("-Cov") or abs(float(clip) - value.clip_high) < 1e-9)
        ):
            return value
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
