"""Two optimiser steps of verl's own training worker (FSDP2 engine, gloo, one process) for every recipe and baseline.

Run as `python -m tests.support.loss_modes FOLDER` with the CPU mode's environment; prints one JSON line a combination.
Responses are drawn at random, log-probabilities, advantages, losses and updates are verl's.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import numpy as np
import torch

GROUPS, SIZE, PROMPT, RESPONSE = 4, 8, 5, 6
STEPS = 2
METRICS = ("actor/pg_loss", "actor/pg_clipfrac", "actor/ppo_kl", "kl_loss", "grad_norm")


def main(folder: Path) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo import core_algos
    from verl.utils import tensordict_utils as tu
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.config import TrainingWorkerConfig
    from verl.workers.engine_workers import TrainingWorker
    from verl.workers.utils.losses import ppo_loss
    from verl.workers.utils.padding import response_from_nested

    from harness.config import reference
    from harness.config.compose import compose, groups
    from tests.trainer.assets import make_assets

    model_path = make_assets(folder)["model"]

    def config(recipe: str, baseline: str):
        made = compose([f"recipe={recipe}", f"baseline={baseline}", "model=tiny", f"recipe.group_size={SIZE}"])
        made.asked["actor_rollout_ref"]["model"]["path"] = model_path
        return OmegaConf.create(reference.merged(made.asked))

    def build() -> TrainingWorker:
        node = config("dapo", "mean").actor_rollout_ref
        actor, model = omega_conf_to_dataclass(node.actor), omega_conf_to_dataclass(node.model)
        engine = actor.engine
        engine.use_dynamic_bsz, engine.use_remove_padding = False, False
        engine.micro_batch_size_per_gpu = engine.infer_micro_batch_size_per_gpu = GROUPS * SIZE
        worker = TrainingWorker(
            TrainingWorkerConfig(
                model_type="language_model", model_config=model, engine_config=engine, optimizer_config=actor.optim,
                checkpoint_config=actor.checkpoint, profiler_config=None,
            )
        )  # fmt: skip
        worker.reset()
        return worker

    def nested(rows):
        return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)

    def batch(generator: torch.Generator):
        rows = GROUPS * SIZE
        prompts = torch.randint(4, 40, (rows, PROMPT), generator=generator)
        lengths = torch.randint(2, RESPONSE + 1, (rows,), generator=generator)
        responses = [torch.randint(4, 40, (int(n),), generator=generator) for n in lengths]
        ids = [torch.cat([p, r]) for p, r in zip(prompts, responses, strict=True)]
        fields = {
            "prompts": nested(prompts), "responses": nested(responses), "input_ids": nested(ids),
            "position_ids": nested(torch.arange(len(i)) for i in ids),
            "response_mask": nested(torch.ones(len(r), dtype=torch.long) for r in responses),
            "loss_mask": nested(torch.cat([torch.zeros(PROMPT), torch.ones(len(r))]).long() for r in responses),
        }  # fmt: skip
        extra = {
            "temperature": 1.0, "calculate_entropy": True, "global_batch_size": rows, "mini_batch_size": rows,
            "epochs": 1, "seed": 0, "dataloader_kwargs": {"shuffle": False}, "compute_loss": False,
        }  # fmt: skip
        return tu.get_tensordict(fields, extra)

    worker = build()
    generator = torch.Generator().manual_seed(0)
    for recipe in groups()["recipe"]:
        for baseline in groups()["baseline"]:
            whole = config(recipe, baseline)
            actor = omega_conf_to_dataclass(whole.actor_rollout_ref.actor)
            worker.set_loss_fn(functools.partial(ppo_loss, config=actor))
            line = {"recipe": recipe, "baseline": baseline, "loss_mode": actor.policy_loss.loss_mode, "steps": []}
            for _ in range(STEPS):
                data = batch(generator)
                scored = worker.infer_batch(data.copy())
                old = response_from_nested(scored["log_probs"], data["response_mask"])
                mask = data["response_mask"].to_padded_tensor(0)
                rewards = torch.zeros(mask.shape)
                rewards[:, 0] = (torch.arange(len(mask)) % SIZE < torch.arange(len(mask)) // SIZE * 2 + 1).float()
                advantages, _ = core_algos.get_adv_estimator_fn(whole.algorithm.adv_estimator)(
                    token_level_rewards=rewards, response_mask=mask,
                    index=np.repeat(np.arange(GROUPS), SIZE).astype(object),
                    norm_adv_by_std_in_grpo=whole.algorithm.norm_adv_by_std_in_grpo, config=whole.algorithm,
                )  # fmt: skip
                lengths = mask.sum(-1).tolist()
                data["old_log_probs"] = nested(row + 0.05 * torch.randn(row.shape) for row in old.unbind())
                data["advantages"] = nested(row[: int(n)] for row, n in zip(advantages, lengths, strict=True))
                if actor.use_kl_loss:
                    data["ref_log_prob"] = nested(row - 0.1 for row in old.unbind())
                before = [p.detach().clone() for p in worker.engine.module.parameters()]
                metrics = tu.get(worker.train_mini_batch(data), "metrics")
                moved = sum(
                    float((p.detach() - q).abs().sum().full_tensor() if hasattr(p, "full_tensor") else 0.0)
                    for p, q in zip(worker.engine.module.parameters(), before, strict=True)
                )
                kept = {name: _number(metrics[name]) for name in METRICS if name in metrics}
                line["steps"].append({"moved": moved, **kept})
            print("RESULT " + json.dumps(line), flush=True)


def _number(value) -> float | None:
    while isinstance(value, list):
        value = value[0] if value else None
    value = getattr(value, "value", value)
    if hasattr(value, "aggregate"):
        value = value.aggregate()
    try:
        return float(value[0] if isinstance(value, list) else value)
    except (TypeError, ValueError):
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
