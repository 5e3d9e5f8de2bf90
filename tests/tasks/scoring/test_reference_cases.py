"""The cases that must come out right, row by row, and what verl's own training scorer makes of them."""

from __future__ import annotations

import pytest

from harness.tasks.scoring.scorer import score

ROWS = [
    # response, ground truth, right, right by verl's math_dapo
    ("Answer: 70.", "70", True, False),
    (r"Answer: \boxed{70}.", "70", True, False),
    # math_dapo without a box in reserve fails here; verl 0.9.1 falls back to a box in the last 100 characters
    (r"The answer is \boxed{70}", "70", True, True),
    (r"Answer: \boxed{70}", "70", True, True),
    ("Answer: 70 cm", "70", True, True),
    (r"Answer: 70^\circ", "70", True, True),
    ("Answer: x = 70", "70", True, True),
    ("Answer: $70$.", "70", True, True),
    ("Answer: 33", "033", True, False),
    ("Answer: 033", "33", True, False),
    ("Answer: 27", "27.0", True, False),
    ("Answer: **70**", "70", True, False),
    ("**Answer:** 70", "70", True, False),
    (r"Answer: \(70\)", "70", True, False),
    ("Answer: 70.0", "70", True, False),
    ("Answer: 70<|im_end|>", "70", True, False),
    ("Answer: 70</answer>", "70", True, False),
    ("Answer: 1,000", "1000", True, True),
    ("Answer: 70\n" + "We check it. " * 31, "70", True, False),
    ("Answer: 711", "11", False, False),
    ("There are 70 of them, and so the argument goes on", "70", False, False),
]


@pytest.mark.parametrize(("response", "truth", "right"), [row[:3] for row in ROWS])
def test_evaluation_scorer(response, truth, right):
    assert score(f"Let us count.\n\n{response}", truth).correct is right


@pytest.mark.slow  # imports verl
def test_training_scorer_fails_where_the_table_says_so():
    from verl.utils.reward_score import math_dapo

    got = [(row[0], math_dapo.compute_score(f"Let us count.\n\n{row[0]}", row[1])["score"] > 0) for row in ROWS]
    assert got == [(row[0], row[3]) for row in ROWS]


@pytest.mark.parametrize(
    "ending", ["**70**", "70 cm", r"70^\circ", "x = 70", "$70$.", r"\(70\)", "70.0", "70<|im_end|>"]
)
def test_a_last_line_that_is_the_answer_alone_counts(ending):
    assert score(f"Let us count.\n{ending}", "70").correct
    assert not score(f"Let us count.\n{ending}", "71").correct
