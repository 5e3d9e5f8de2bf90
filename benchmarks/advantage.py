"""Time of the estimator against verl's own: `python benchmarks/advantage.py`.

Prints, for two batch shapes, the time of the quantile estimator and of verl's loop version as multiples of
verl's vectorised GRPO (`compute_grpo_vectorized_outcome_advantage`) in the same process. The target is 1.5.
Labels are uids, strings in an object array, as verl's trainer passes them. Integer labels are timed too: verl
uses those as row numbers without a look, and a millisecond of sorting then shows at 65,536 x 16.
"""

from __future__ import annotations

import itertools
import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo import core_algos

from harness.trainer.advantage import compute_quantile_outcome_advantage

SHAPES = ((8_192, 1_024), (65_536, 16))
GROUP = 16
TARGET = 1.5


def batch(rows: int, tokens: int) -> dict[str, Any]:
    """Binary outcome rewards at each response's last token, groups of 16 in shuffled order."""
    generator = torch.Generator().manual_seed(0)
    rewards = torch.zeros(rows, tokens)
    lengths = torch.randint(1, tokens + 1, (rows,), generator=generator)
    rewards[torch.arange(rows), lengths - 1] = torch.randint(0, 2, (rows,), generator=generator).float()
    uids = np.repeat([str(uuid.UUID(int=i * 2**64)) for i in range(rows // GROUP)], GROUP).astype(object)
    return {
        "token_level_rewards": rewards,
        "response_mask": (torch.arange(tokens) < lengths[:, None]).long(),
        "index": uids[torch.randperm(rows, generator=generator).numpy()],
    }


def seconds(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, taken in turns so that a busy machine slows all alike."""
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values[1:]) for name, values in taken.items()}


def main() -> None:
    for (rows, tokens), labels in itertools.product(SHAPES, ("uids", "integers")):
        data = batch(rows, tokens)
        if labels == "integers":
            data["index"] = np.unique(data["index"], return_inverse=True)[1]

        def ours(data: dict[str, Any] = data, **node: Any) -> object:
            return compute_quantile_outcome_advantage(**data, config={"qae": {"K": 0.4, **node}})

        times = seconds(
            {
                "vectorised": lambda data=data: core_algos.compute_grpo_vectorized_outcome_advantage(**data),
                "qae": ours,
                "qae, linear": lambda ours=ours: ours(interpolation="linear"),
                "qae, mask": lambda ours=ours: ours(mask="positive"),
            },
            repeats=11,
        )
        loop = {"loop": lambda data=data: core_algos.compute_grpo_outcome_advantage(**data)}
        times |= seconds(loop, repeats=1)
        unit = times.pop("vectorised")
        threads = torch.get_num_threads()
        print(f"{rows:,} x {tokens:,}, {labels}, {threads} threads; vectorised GRPO {unit * 1e3:.1f} ms")
        for name, value in times.items():
            verdict = "met" if value <= TARGET * unit else "missed"
            note = "" if name == "loop" else f"  (target {TARGET}: {verdict})"
            print(f"  {name:<12} {value / unit:6.2f} x{note}")


if __name__ == "__main__":
    main()
