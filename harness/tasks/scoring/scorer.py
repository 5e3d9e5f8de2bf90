"""The evaluation scorer: is this response right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.tasks.scoring import judge, truth
from harness.tasks.scoring.answer import extract
from harness.tasks.scoring.judge import Judge
from harness.tasks.scoring.markup import plain
from harness.tasks.scoring.number import LONGEST, canonical, exact

NAME = "exact-or-symbolic"
VERSION = "2"
"""Raised whenever a response could be judged differently than before."""
SCORER = f"{NAME}/{VERSION}"
"""What stands beside every evaluated response."""

_LONGEST_SYMBOLIC = 400


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a response is worth."""

    correct: bool
    answer: str | None
    """As extracted, numbers in their shortest form, so that equal answers are equal texts; None without an answer."""
    timed_out: bool = False
    """The symbolic comparison ran out of time; then `correct` is False."""


def score(response: str, ground_truth: Any, compare: Judge | None = None) -> Verdict:
    """Judges a response: numbers by exact arithmetic, everything else by math-verify with a bound on its time.

    Args:
        response: the generated text, with or without end tokens.
        ground_truth: the right answer in any shape that `truth.normalise` knows.
        compare: who compares expressions; by default the judge of this process.

    Safe in any thread. Raises: HarnessError for a ground truth that is none, or without math-verify.
    """
    gold = truth.normalise(ground_truth)
    answer = extract(response)
    if answer is None:
        return Verdict(False, None)
    if len(answer) > LONGEST:
        return Verdict(False, plain(answer[:LONGEST]) or None)
    number, right = exact(answer), exact(gold)
    text = canonical(number) if number is not None else plain(answer)
    if number is not None and right is not None:
        return Verdict(number == right, text)
    if _squeezed(text) == _squeezed(gold):
        return Verdict(True, text)
    if not text or len(text) > _LONGEST_SYMBOLIC:
        return Verdict(False, text or None)
    ruling = (compare or judge.shared()).compare(gold, text)
    return Verdict(ruling.equal, text, ruling.timed_out)


def _squeezed(text: str) -> str:
    return "".join(text.split())
