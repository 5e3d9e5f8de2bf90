"""Micro-batches that divide what they are cut from, where they are counted in responses.

verl stops a run in its first step where they do not (verl/workers/engine/utils.py, prepare_micro_batches). Their size
decides memory and speed, never a result, so a model's own value is taken as the most that fits and lowered where a
study asks for smaller groups or mini-batches.
"""

from __future__ import annotations

from typing import Any

from harness.config.settings import Settings

UPDATE = ("actor.ppo_micro_batch_size_per_gpu",)
"""Cut from one mini-batch."""
FORWARD = ("rollout.log_prob_micro_batch_size_per_gpu", "ref.log_prob_micro_batch_size_per_gpu")
"""Cut from the whole step."""


def fit(asked: dict[str, Any], settings: Settings) -> None:
    """Lowers the micro-batch sizes of `asked`, a run's verl settings, to divisors. Does nothing for dynamic ones."""
    node = asked.get("actor_rollout_ref", {})
    actor = node.get("actor", {})
    if actor.get("use_dynamic_bsz"):
        return
    resources, recipe = settings.model.resources, settings.recipe
    gpus = max(1, resources.gpus * resources.nodes)
    parallel = max(1, gpus // int(actor.get("ulysses_sequence_parallel_size") or 1))
    for keys, prompts in ((UPDATE, recipe.mini_batch), (FORWARD, recipe.prompts_per_step)):
        rows = prompts * recipe.group_size // parallel
        for part, name in (key.split(".") for key in keys):
            most = node.get(part, {}).get(name)
            if isinstance(most, int) and most > 0 and rows > 0:
                node[part][name] = largest_divisor(rows, most)


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of `number` that is no larger than `most`."""
    return next(size for size in range(min(number, most), 0, -1) if number % size == 0)
