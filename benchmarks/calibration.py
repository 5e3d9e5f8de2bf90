"""Do intervals, verdicts and detectable differences keep their word? `python benchmarks/calibration.py`.

Studies with a known truth are simulated: problems drawn anew in every study, rates on the logit scale with effects of
arm x problem, seed, and seed x problem, then binomial samples. Printed for every design, from the product's own
functions:

- score, diff: how often the 95 % interval holds the truth, and its mean width divided by that of the best interval
  of known width, 2 x 1.96 true standard errors;
- power: how often the verdict finds the true gain; best: how often a test would that knew the standard error;
- false: how often at least one of five arms equal to the baseline is called different after Holm;
- MDE: the mean detectable difference that the studies state, in points, and the power that the test really has at what
  each stated;
- plan: the detectable difference where the variance components are known, and the power that the test really has there.

    python benchmarks/calibration.py [--studies 1000] [--problems 30 500] [--samples 1 4 16 32] [--seeds 3 5 10]
        [--rates low middle ceiling] [--effects 0 0.15] [--pass-k 1]

All of it takes about a quarter of an hour; the default is the whole table.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, ndtr

from analysis.statistics import difference, estimate, power
from analysis.statistics.components import Seeds, Sources
from analysis.statistics.multiple import holm
from analysis.statistics.passk import pass_at_k

RATES = {"low": (0.25, 2.25), "middle": (0.6, 1.4), "ceiling": (3.88, 0.12)}
"""Beta distributions of the problems' rates: means 0.1, 0.3 and 0.97."""
ARM_BY_PROBLEM, SEED_BY_PROBLEM = 0.3, 0.3  # standard deviations on the logit scale
FAMILY = 5


@dataclass(frozen=True, slots=True)
class Design:
    """One line of the table."""

    problems: int
    samples: int
    seeds: int
    rate: str
    effect: float
    """Standard deviation over seeds, on the logit scale."""
    base_seeds: int = 0
    """Of the baseline where it has another number of seeds; 0 is as many."""
    benchmarks: int = 1
    """Into which the problems are divided."""
    pass_k: int = 1

    @property
    def gain(self) -> float:
        """The arm's gain on the logit scale."""
        return 0.5 if self.problems < 100 else 0.25


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a design measured."""

    points: float
    """The true gain, points."""
    score: float
    score_width: float
    diff: float
    diff_width: float
    power: float
    best: float
    false: float
    stated: float
    """Mean stated detectable difference, points."""
    stated_power: float
    planned: float
    """Detectable difference from the components' true values (their means over all studies), points."""
    planned_power: float


def population(rate: str) -> np.ndarray:
    """(20000,) logits of problems' rates."""
    drawn = np.random.default_rng(7).beta(*RATES[rate], 20_000)
    return logit(drawn.clip(1e-4, 1 - 1e-4))


def truth(design: Design, gain: float) -> float:
    """Expected pass@k over problems and seeds."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    sd = (design.effect**2 + ARM_BY_PROBLEM**2 + SEED_BY_PROBLEM**2) ** 0.5
    rates = expit(population(design.rate)[:, None] + gain + sd * nodes)
    return float(((1 - (1 - rates) ** design.pass_k) @ (weights / weights.sum())).mean())


def studies(design: Design, number: int, rng: np.random.Generator, gains: list[float]) -> Iterator[list[np.ndarray]]:
    """Studies with one arm a gain on the same problems: (seeds, problems) scores, the baseline first."""
    logits = population(design.rate)
    for _ in range(number):
        problems = logits[rng.integers(0, len(logits), design.problems)]
        arms = []
        for i, gain in enumerate(gains):
            count = design.base_seeds or design.seeds if i == 0 else design.seeds
            shape = (count, design.problems)
            rates = expit(
                problems + gain + ARM_BY_PROBLEM * rng.normal(size=design.problems)
                + design.effect * rng.normal(size=(count, 1)) + SEED_BY_PROBLEM * rng.normal(size=shape)
            )  # fmt: skip
            arms.append(pass_at_k(design.samples, rng.binomial(design.samples, rates), design.pass_k))
        yield arms


def measure(design: Design, number: int, seed: int = 0, *, family: bool = True) -> Outcome:
    """Simulates studies of a design and judges each by the product's functions."""
    rng = np.random.default_rng([seed, *map(ord, repr(design))])
    strata = np.arange(design.problems) % design.benchmarks
    base, other = truth(design, 0.0), truth(design, design.gain)
    gain = other - base
    scores, found = [], []
    for first, second in studies(design, number, rng, [0.0, design.gain]):
        scores.append(estimate.score(first, strata))
        found.append(difference.paired(second, first, strata))
    wrong = 0
    if family:
        for arms in studies(design, number, rng, [0.0] * (FAMILY + 1)):
            p = [difference.paired(arm, arms[0], strata).p for arm in arms[1:]]
            wrong += bool((holm(p) < 0.05).any())
    estimates = np.array([d.interval.estimate for d in found])
    p = np.array([d.p for d in found])
    sd, score_sd = estimates.std(), np.std([s.estimate for s in scores])
    stated = np.array([d.detectable() for d in found[: min(number, 200)]])
    stated = stated[np.isfinite(stated)]
    errors, halves = estimates - gain, np.array([d.interval.high - d.interval.estimate for d in found])
    planned = power.detectable(_expected([d.sources for d in found]))
    return Outcome(
        points=100 * gain,
        score=float(np.mean([s.low <= base <= s.high for s in scores])),
        score_width=float(np.mean([s.high - s.low for s in scores]) / (3.92 * score_sd)),
        diff=float(np.mean([d.interval.low <= gain <= d.interval.high for d in found])),
        diff_width=float(np.mean([d.interval.high - d.interval.low for d in found]) / (3.92 * sd)),
        power=float(np.mean(p < 0.05)),
        best=float(ndtr(gain / sd - 1.96) + ndtr(-gain / sd - 1.96)),
        false=wrong / number if family else float("nan"),
        stated=100 * float(stated.mean()),
        stated_power=float(np.mean([np.mean(np.abs(errors + d) > halves) for d in stated])),
        planned=100 * planned,
        planned_power=float(np.mean(np.abs(errors + planned) > halves)),
    )


def _expected(found: list[Sources]) -> Sources:
    """The mean of every source over studies."""
    arms = [
        Seeds(
            float(np.mean([f.seeds[i].between for f in found])), float(np.mean([f.seeds[i].residual for f in found])),
            found[0].seeds[i].count,
        ) for i in range(2)
    ]  # fmt: skip
    problems = float(np.mean([f.problems for f in found]))
    return Sources(problems, float(np.mean([f.problem_freedom for f in found])), tuple(arms))


def line(design: Design, found: Outcome) -> str:
    """One row of the table."""
    seeds = f"{design.seeds}" if not design.base_seeds else f"{design.seeds}/{design.base_seeds}"
    return (
        f"{design.rate:8} {design.problems:8d} {design.samples:7d} {seeds:>5} {design.effect:6.2f} {found.points:5.1f}"
        f" | {100 * found.score:5.1f} {found.score_width:4.2f} | {100 * found.diff:5.1f} {found.diff_width:4.2f}"
        f" | {100 * found.power:5.1f} {100 * found.best:5.1f} | {100 * found.false:4.1f}"
        f" | {found.stated:5.1f} {100 * found.stated_power:5.1f}"
        f" | {found.planned:5.1f} {100 * found.planned_power:5.1f}"
    )


HEAD = (
    "rate     problems samples seeds seedsd  gain | score width |  diff width | power  best | false |  MDE power"
    " | plan power"
)


def main() -> None:
    """Prints the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--studies", type=int, default=1000)
    options.add_argument("--problems", type=int, nargs="+", default=[30, 500])
    options.add_argument("--samples", type=int, nargs="+", default=[1, 4, 16, 32])
    options.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10])
    options.add_argument("--base-seeds", type=int, default=0, help="of the baseline, where it has another number")
    options.add_argument("--rates", nargs="+", choices=list(RATES), default=list(RATES))
    options.add_argument("--effects", type=float, nargs="+", default=[0.0, 0.15], help="sd over seeds, logit scale")
    options.add_argument("--benchmarks", type=int, default=1, help="into which the problems are divided")
    options.add_argument("--pass-k", type=int, default=1)
    options.add_argument("--no-family", action="store_true", help="leave the family of five arms out")
    chosen = options.parse_args()
    sys.stdout.write(f"{HEAD}\n")
    for problems, samples, rate, effect, seeds in itertools.product(
        chosen.problems, chosen.samples, chosen.rates, chosen.effects, chosen.seeds
    ):
        if samples < chosen.pass_k:
            continue
        design = Design(problems, samples, seeds, rate, effect, chosen.base_seeds, chosen.benchmarks, chosen.pass_k)
        sys.stdout.write(line(design, measure(design, chosen.studies, family=not chosen.no_family)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
