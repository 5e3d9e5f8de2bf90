"""Time of the hierarchical bootstrap against a plain loop: `python benchmarks/bootstrap.py`.

10,000 resamples of 8 arms x 10 seeds x 30 problems, processor time, the best of five; the loop is timed on
200 resamples and scaled up. The budget is 2 seconds.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from analysis.statistics.bootstrap import resample

ARMS, SEEDS, PROBLEMS, RESAMPLES, BUDGET = 8, 10, 30, 10_000, 2.0


def loop(arms: list[np.ndarray], rng: np.random.Generator, resamples: int) -> np.ndarray:
    """The same draws written down plainly."""
    means = np.empty((len(arms), resamples))
    for b in range(resamples):
        problems = rng.integers(0, PROBLEMS, PROBLEMS)
        for i, x in enumerate(arms):
            means[i, b] = x[rng.integers(0, len(x), len(x))][:, problems].mean()
    return means


def main() -> None:
    """Prints the times and their ratio."""
    rng = np.random.default_rng(0)
    arms = [rng.random((SEEDS, PROBLEMS)) for _ in range(ARMS)]
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        resample(arms, rng, resamples=RESAMPLES)
        best = min(best, time.process_time() - start)
    start = time.process_time()
    loop(arms, rng, 200)
    plain = (time.process_time() - start) * RESAMPLES / 200
    sys.stdout.write(
        f"{RESAMPLES} resamples of {ARMS} arms x {SEEDS} seeds x {PROBLEMS} problems: {best:.3f} s,"
        f" {best / BUDGET:.2f} of the budget of {BUDGET:g} s\nplain loop: {plain / best:.0f} times as long\n"
    )


if __name__ == "__main__":
    main()
