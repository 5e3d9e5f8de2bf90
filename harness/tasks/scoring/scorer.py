"""The evaluation scorer: is this response right?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from harness.tasks.scoring import judge, truth
from harness.tasks.scoring.answer import extract
from harness.tasks.scoring.judge import Judge
from harness.tasks.scoring.markup import plain, squeezed
from harness.tasks.scoring.number import LONGEST, canonical, exact, quantity

NAME = "exact-or-symbolic"
VERSION = "3"
"""Raised whenever a response could be judged differently than before."""
SCORER = f"{NAME}/{VERSION}"
"""What stands beside every evaluated response."""

_LONGEST_SYMBOLIC = 400
_RELATION = re.compile(r"[=<>≤≥≠]|\\(?:le|ge|lt|gt|ne|in)")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a response is worth."""

    correct: bool
    answer: str | None
    """As extracted, numbers in their shortest form, so that equal answers are equal texts; None without an answer."""
    timed_out: bool = False
    """The symbolic comparison ran out of time; then `correct` is False."""


def score(response: str, ground_truth: Any, compare: Judge | None = None) -> Verdict:
    """Judges a response: numbers by exact arithmetic, everything else by its parts and sympy, with a bound on its time.

    Args:
        response: the generated text, with or without end tokens.
        ground_truth: the right answer in any shape that `truth.given` knows.
        compare: who compares expressions; by default the judge of this process.

    Safe in any thread. Raises: HarnessError for a ground truth that is none, or without math-verify.
    """
    gold = truth.given(ground_truth)
    answer = extract(response)
    if answer is None:
        return Verdict(False, None)
    if len(answer) > LONGEST:
        return Verdict(False, plain(answer[:LONGEST]) or None)
    right, number = quantity(gold), quantity(answer)
    text = plain(answer) if _RELATION.search(gold) and number is None else _vote(answer)
    if right is not None and number is not None:
        return Verdict(number.equals(right), text)
    if squeezed(plain(answer)) == squeezed(plain(gold)):
        return Verdict(True, text)
    if not text or len(text) > _LONGEST_SYMBOLIC:
        return Verdict(False, text or None)
    ruling = (compare or judge.shared()).compare(gold, answer)
    return Verdict(ruling.equal, text, ruling.timed_out)


def current(name: str) -> str:
    """What judges the rows of a run whose plan names a scorer: of ours today's version."""
    return SCORER if name.partition("/")[0] == NAME else name


def _vote(answer: str) -> str:
    """The text of an answer to what is no equation: `x = 70` and `m+n = 70.0` count for 70."""
    value = exact(answer)
    if value is None and "=" in answer:
        value = exact(answer.rpartition("=")[2])
    return canonical(value) if value is not None else plain(answer)
