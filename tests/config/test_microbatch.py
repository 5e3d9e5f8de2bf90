from __future__ import annotations

import pytest

from harness.config.compose import compose
from harness.config.microbatch import largest_divisor


def sizes(*overrides):
    node = compose(["model=tiny", *overrides]).asked["actor_rollout_ref"]
    return (
        node["actor"]["ppo_micro_batch_size_per_gpu"],
        node["rollout"]["log_prob_micro_batch_size_per_gpu"],
        node["ref"]["log_prob_micro_batch_size_per_gpu"],
    )


@pytest.mark.parametrize(
    ("number", "most", "size"), [(128, 128, 128), (64, 128, 64), (96, 64, 48), (7, 3, 1), (9, 4, 3)]
)
def test_largest_divisor(number, most, size):
    assert largest_divisor(number, most) == size


def test_sizes_follow_the_recipe():
    base = ("recipe.prompts_per_step=16", "recipe.mini_batch=8", "recipe.group_size=16")
    assert sizes(*base) == (128, 128, 128)
    assert sizes(*base, "recipe.mini_batch=4") == (64, 128, 128)
    assert sizes(*base, "recipe.group_size=4") == (32, 64, 64)
    assert sizes(*base, "recipe.group_size=3") == (24, 48, 48)
    assert sizes(*base, "verl.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=48") == (32, 128, 128)


def test_dynamic_batches_are_left_alone():
    actor = compose(["model=qwen3_8b_base"]).asked["actor_rollout_ref"]["actor"]
    assert actor["use_dynamic_bsz"]
    assert "ppo_micro_batch_size_per_gpu" not in actor


@pytest.mark.parametrize("sweep", ["main_table", "mask_ablation", "eps_high", "group_size", "kl_instead", "model_size"])
def test_tiny_studies_cut_evenly(sweep):
    from harness.config.grid import load

    for point in load(f"tiny/{sweep}").points:
        made = compose(point.overrides)
        node, recipe = made.asked["actor_rollout_ref"], made.settings.recipe
        assert recipe.mini_batch * recipe.group_size % node["actor"]["ppo_micro_batch_size_per_gpu"] == 0
        whole = recipe.prompts_per_step * recipe.group_size
        assert whole % node["rollout"]["log_prob_micro_batch_size_per_gpu"] == 0
