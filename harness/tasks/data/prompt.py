"""What a problem looks like to the model: the prompt of DAPO's recipe, which the paper trains and evaluates with."""

from __future__ import annotations

import re

BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
AFTER = '\n\nRemember to put your answer on its own line after "Answer:".'

# Instructions that other published files have glued to their problems.
_GLUED = (
    re.compile(r"\s*Let's think step by step and output the final answer within \\boxed\{\}\.?\s*$"),
    re.compile(r"\s*Please reason step by step, and put your final answer within \\boxed\{\}\.?\s*$"),
)


def wrap(problem: str) -> str:
    """The prompt for a problem."""
    return f"{BEFORE}{problem}{AFTER}"


def unwrap(prompt: str) -> str:
    """The problem in a prompt that has been wrapped already, by this template or another known one."""
    text = prompt.strip()
    if text.startswith(BEFORE.strip()):
        text = text[len(BEFORE.strip()) :]
    if text.endswith(AFTER.strip()):
        text = text[: -len(AFTER.strip())]
    for pattern in _GLUED:
        text = pattern.sub("", text)
    return text.strip()
