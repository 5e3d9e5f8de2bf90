"""verl's reward function: `verl.reward.custom_reward_function.path=pkg://harness.tasks.scoring.reward`.

Training rows get what the recipe trains on, verl's `math_dapo` (+1 or -1; its looks at the last 300 characters and
its strictness are part of the paper's setting; the overlong penalty is added by verl's reward manager `dapo`). Their
`acc` is that same judgement, because dynamic sampling filters on it: with another one, groups whose rewards are all
equal would stay in the batch. `math_dapo` compares texts, so a whole number is given to it in its shortest
form (`025` as `25`). Evaluation rows are judged by the evaluation scorer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.tasks.scoring import judge, scorer, truth

TRAINING_SCORER = "math_dapo"
"""Of verl, verl/utils/reward_score/math_dapo.py."""

judge.require()


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None, **_: Any
) -> dict[str, Any]:
    """`score` (+1 right, -1 wrong), `acc` (1.0 or 0.0) and `pred` (the answer, None without one) of a response.

    A row is for training where its `extra_info.split` is "train"; everything else is evaluated.
    """
    if extra_info is not None and extra_info.get("split") == "train":
        return _trained(solution_str, truth.shortest(truth.given(ground_truth)))
    verdict = scorer.score(solution_str, ground_truth)
    return {
        "score": 1.0 if verdict.correct else -1.0,
        "acc": 1.0 if verdict.correct else 0.0,
        "pred": verdict.answer,
    }


def _trained(response: str, truth: str) -> dict[str, Any]:
    from verl.utils.reward_score import math_dapo

    result: Any = math_dapo.compute_score(response, truth)
    right = float(result["score"]) > 0
    return {
        "score": float(result["score"]),
        "acc": 1.0 if right else 0.0,
        "pred": None if result["pred"] in (None, "[INVALID]") else str(result["pred"]),
    }
