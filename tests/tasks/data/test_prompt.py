from __future__ import annotations

import pytest

from harness.tasks.data.prompt import AFTER, BEFORE, unwrap, wrap


@pytest.mark.parametrize(
    "prompt",
    [
        f"{BEFORE}What is 2+2?{AFTER}",
        r"What is 2+2? Let's think step by step and output the final answer within \boxed{}.",
        "  What is 2+2?\n",
    ],
)
def test_a_prompt_is_not_wrapped_twice(prompt):
    assert unwrap(prompt) == "What is 2+2?"
    assert wrap(unwrap(prompt)) == f"{BEFORE}What is 2+2?{AFTER}"
