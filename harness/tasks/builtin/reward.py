"""verl's reward function of the built-in task (`reward.custom_reward_function`)."""

from __future__ import annotations

from typing import Any

from harness.tasks.builtin.arithmetic import predicted

SCORER = "arithmetic/1"
"""Name and version, written beside every evaluated response."""


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, Any]:
    """1 for the right answer, else 0; `pred` is the answer that was read."""
    answer = predicted(solution_str)
    right = float(answer == ground_truth)
    return {"score": right, "acc": right, "pred": answer}
