"""Addition problems at two difficulties, in pure Python: what is asked, what is right, what a demonstration looks like.

A response is an answer, or a scratch note, a separator and an answer: `47+38=` may be answered `75` (the carry is
lost) or `15;85`. Demonstrations mix both habits, so a warm-started model has queries that it mostly fails (a carry, and
no note) and queries that it mostly solves, and reinforcement can make it write more or less before it answers.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

SEPARATORS = ";,:/"
"""Any of these may follow the note: several ways to be right give the policy some entropy to lose or keep."""
CHARACTERS = "0123456789+=" + SEPARATORS
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


def evaluation_set(benchmark: str) -> list[Problem]:
    """The evaluation problems of one difficulty."""
    return _problems(benchmark)[:EVALUATION_PROBLEMS]


def predicted(response: str) -> str:
    """The answer that a response gives: what follows its last separator."""
    return re.split(f"[{re.escape(SEPARATORS)}]", response.strip())[-1].strip()


def demonstration(problem: Problem, rng: random.Random, note_share: float) -> str:
    """A response as the warm start shows it.

    With probability `note_share` the note and the right answer, else the digits added without the carry.
    """
    units = problem.a % 10 + problem.b % 10
    if rng.random() < note_share:
        return f"{units:02d}{rng.choice(SEPARATORS)}{problem.answer}"
    return str((problem.a // 10 + problem.b // 10) * 10 + units % 10)


def _problems(benchmark: str) -> list[Problem]:
    """All problems of one difficulty in a fixed random order."""
    carry = benchmark == "arithmetic_hard"
    pairs = [(a, b) for a in range(10, 50) for b in range(10, 50) if (a % 10 + b % 10 > 9) == carry]
    random.Random(_SPLIT_SEED).shuffle(pairs)
    return [Problem(benchmark, index, a, b) for index, (a, b) in enumerate(pairs)]
