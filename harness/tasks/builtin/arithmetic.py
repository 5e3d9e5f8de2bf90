"""Addition problems at two difficulties, in pure Python: what is asked, what is right, what a demonstration looks like.

A response is a scratch note, a semicolon and an answer: `47+38=` is answered `15;85`. Demonstrations slip in the last
digit, rarely without a carry and mostly with one. So a warm-started model has queries that it mostly solves and queries
that it mostly fails, knows the right answer to nearly all of them, and has something to gain from reinforcement.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

SEPARATOR = ";"
"""Stands between the note and the answer."""
CHARACTERS = "0123456789+=" + SEPARATOR
"""Everything that prompts and responses are made of."""
BENCHMARKS = ("arithmetic_easy", "arithmetic_hard")
"""Data sources: no carry, or a carry in the units."""
EVALUATION_PROBLEMS = 32
"""Problems of each evaluation set; they are not in the training set."""
TRAINING_PROBLEMS = 256
"""Training problems of each difficulty."""
_SPLIT_SEED = 2509_22611


@dataclass(frozen=True, slots=True)
class Problem:
    """One addition problem."""

    benchmark: str
    index: int
    """Stable within the benchmark; training and evaluation problems share one numbering."""
    a: int
    b: int

    @property
    def prompt(self) -> str:
        """What the model reads, such as `47+38=`."""
        return f"{self.a}+{self.b}="

    @property
    def answer(self) -> str:
        """The right answer, without the note."""
        return str(self.a + self.b)


def training_set() -> list[Problem]:
    """The training problems, both difficulties in turn."""
    easy, hard = (_problems(name)[EVALUATION_PROBLEMS:][:TRAINING_PROBLEMS] for name in BENCHMARKS)
    return [problem for pair in zip(easy, hard, strict=True) for problem in pair]


def demonstrated_set(benchmark: str) -> list[Problem]:
    """What the warm start may show of one difficulty: every problem that is not in its evaluation set."""
    return _problems(benchmark)[EVALUATION_PROBLEMS:]


def evaluation_set(benchmark: str) -> list[Problem]:
    """The evaluation problems of one difficulty."""
    return _problems(benchmark)[:EVALUATION_PROBLEMS]


def predicted(response: str) -> str:
    """The answer that a response gives: the digits after its last separator, "" where anything else is there."""
    last = response.strip().rpartition(SEPARATOR)[2]
    return last if last.isascii() and last.isdigit() else ""


def demonstration(problem: Problem, rng: random.Random, slip_share: Mapping[str, float]) -> str:
    """A response as the warm start shows it: the sum of the units as a note, then the answer.

    With the probability that `slip_share` has for the problem's benchmark, the last digit is any digit at all.
    """
    tens, last = problem.answer[:-1], problem.answer[-1]
    if rng.random() < slip_share[problem.benchmark]:
        last = str(rng.randrange(10))
    return f"{problem.a % 10 + problem.b % 10:02d}{SEPARATOR}{tens}{last}"


def _problems(benchmark: str) -> list[Problem]:
    """All problems of one difficulty in a fixed random order."""
    carry = benchmark == "arithmetic_hard"
    pairs = [(a, b) for a in range(10, 50) for b in range(10, 50) if (a % 10 + b % 10 > 9) == carry]
    random.Random(_SPLIT_SEED).shuffle(pairs)
    return [Problem(benchmark, index, a, b) for index, (a, b) in enumerate(pairs)]
