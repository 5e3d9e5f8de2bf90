"""Does the search find the best rank? Simulated trainings whose best rank is known, against grid and random search.

    python benchmarks/search.py [--repetitions 10] [--budget 60]

All three get the same number of training runs. Grid gives every rank the same number of seeds (the first ranks one
more where they do not divide), random draws a rank for every run; both name the rank of the highest mean. The search
stops when no other rank can still be the best, so it often takes less than the budget; pruned runs cost less too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import quantile
from tests.support import search_world
from tests.support.search_world import GROUP, STEPS, Simulated, World

RULES = {
    "in_flight": 4,
    "seeds": {"most": 8},
    "confirm": {"trials": 2, "seeds": 4, "compare": []},
}


def search(best: int, seed: int, budget: int, slope: float, noise: float, sampler: str = "auto") -> tuple[int, float]:
    """(rank that the study names, full-length runs that it took)."""
    world = World(search_world.peak(best, slope), noise=noise, seed=seed)
    study = search_world.study(budget={"runs": budget}, sampler=sampler, **RULES)
    with tempfile.TemporaryDirectory() as folder:
        view = search_world.finish(study, world, Path(folder) / "journal.log")
    winner = next(t for t in view.trials if t.number == view.winner)
    return int(winner.cell["rank"]), sum(run.step for run in world.runs.values()) / STEPS


def drawn(best: int, seed: int, ranks: list[int], slope: float, noise: float) -> int:
    """The rank of the highest mean when every entry of `ranks` is one full run."""
    world = World(search_world.peak(best, slope), noise=noise, seed=seed)
    values: dict[int, list[float]] = {}
    for rank in ranks:
        count = len(values.setdefault(rank, []))
        values[rank].append(
            world.draw(Simulated((f"baseline.K={quantile.short_level(rank, GROUP)}", f"seed={count + 1}")))
        )
    return max(values, key=lambda rank: float(np.mean(values[rank])))


def table(repetitions: int, budget: int, slope: float, noise: float) -> dict[str, tuple[int, float]]:
    """Method -> (repetitions that named the best rank, mean full-length runs that it took)."""
    rng = np.random.default_rng(0)
    places = [int(rng.integers(2, GROUP)) for _ in range(repetitions)]

    def blind(best: int, seed: int, ranks: list[int]) -> tuple[int, float]:
        return drawn(best, seed, ranks, slope, noise), float(len(ranks))

    methods: dict[str, Callable[[int, int], tuple[int, float]]] = {
        "this search": lambda best, seed: search(best, seed, budget, slope, noise),
        "grid": lambda best, seed: blind(best, seed, [i % GROUP + 1 for i in range(budget)]),
        "random": lambda best, seed: blind(
            best, seed, [int(r) for r in np.random.default_rng(seed).integers(1, GROUP + 1, budget)]
        ),
    }  # fmt: skip
    found = {}
    for name, method in methods.items():
        results = [method(best, seed) for seed, best in enumerate(places)]
        right = sum(rank == best for (rank, _), best in zip(results, places, strict=True))
        found[name] = (right, float(np.mean([runs for _, runs in results])))
    return found


def text(found: dict[str, tuple[int, float]], repetitions: int) -> str:
    """The table as it is printed."""
    rows = [f"{name:<14}{f'{right} of {repetitions}':>18}{runs:>14.1f}" for name, (right, runs) in found.items()]
    return "\n".join([f"{'method':<14}{'best rank named':>18}{'runs taken':>14}", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--slope", type=float, default=0.02, help="pass@1 that a rank next to the best one loses")
    parser.add_argument("--noise", type=float, default=0.02, help="standard deviation over seeds")
    options = parser.parse_args()
    print(
        f"16 ranks, {options.budget} runs at most; the neighbours of the best rank lose {100 * options.slope:g} points,"
        f" seeds scatter by {100 * options.noise:g}"
    )
    found = table(options.repetitions, options.budget, options.slope, options.noise)
    print(text(found, options.repetitions))


if __name__ == "__main__":
    main()
