"""Shapes against the published parameter counts, memory and hours against sums done by hand."""

from __future__ import annotations

import re

import pytest

from harness.config import reference
from harness.config.architecture import Architecture
from harness.config.compose import compose, groups
from harness.planning import gpu_hours, gpu_memory

SHAPED = ["qwen3_8b_base", "qwen3_14b_base", "qwen3_30b_a3b_base", "qwen2_5_32b", "qwen3_0_6b_base", "llama3_1_8b"]
REAL = ["data=dapo_math_17k", "evaluation=paper", "recipe=dapo"]


def composed(model, *more):
    made = compose([f"model={model}", *REAL, *more])
    # Unresolved, as the plan reads it: resolving verl's interpolations costs more than everything else here.
    return made.settings, reference.laid_over(reference.load(), made.asked)


@pytest.mark.parametrize("model", SHAPED)
def test_shape_gives_the_published_number_of_parameters(model):
    settings, _ = composed(model)
    assert settings.model.architecture.parameters == pytest.approx(settings.model.parameters, rel=1e-3)


def test_every_gpu_model_has_a_shape():
    assert {"tiny", "small", *SHAPED} == set(groups()["model"])


def test_active_parameters_of_a_mixture():
    settings, _ = composed("qwen3_30b_a3b_base")
    assert settings.model.architecture.active == pytest.approx(3.0e9, rel=0.05), "A3B"


@pytest.mark.parametrize("model", SHAPED)
def test_the_configured_layout_fits_and_holds_the_longest_sequence(model):
    more = ("data=gsm8k_train",) if model == "qwen3_0_6b_base" else ()
    settings, verl = composed(model, *more)
    on = gpu_memory.layout(settings, verl)
    actor = verl["actor_rollout_ref"]["actor"]
    shape = settings.model.architecture
    parallel = actor["ulysses_sequence_parallel_size"]
    assert actor["ppo_max_token_len_per_gpu"] * parallel >= on.longest
    assert shape.heads % parallel == 0
    assert shape.kv_heads % parallel == 0
    assert on.gpus % parallel == 0
    assert on.per_node % on.tensor_parallel == 0
    assert shape.heads % on.tensor_parallel == 0
    assert gpu_memory.estimate(settings, verl).problems == ()


def test_states_add_up():
    shape = Architecture(layers=2, hidden=64, intermediate=128, heads=4, kv_heads=2, head_dim=16, vocabulary=1000)
    per_layer = 64 * 16 * (4 + 2 + 2 + 4) + 3 * 64 * 128
    assert shape.parameters == 2 * per_layer + 2 * 1000 * 64
    assert shape.cache_bytes() == 2 * 2 * 2 * 16 * 2
    on = gpu_memory.Layout(
        gpus=4, per_node=2, shards=4, tokens=100, longest=50, tensor_parallel=2, vllm_share=0.5, model_bytes=4,
        param_offload=False, optimizer_offload=True, reference=True, chunked_entropy=True,
    )  # fmt: skip
    got = gpu_memory.of(shape, on, capacity=10, host_capacity=100)
    training = dict(got.training)
    assert training["weights"] * gpu_memory.GIB == pytest.approx(shape.parameters * 4 / 4)
    assert training["optimizer"] == pytest.approx(2 * training["weights"])
    assert training["logits"] * gpu_memory.GIB == pytest.approx(100 * 1000 * (2 + 2 + 4))
    rollout = dict(got.rollout)
    assert rollout["training states"] == training["weights"], "weights stay, the optimizer goes to the host"
    assert rollout["vLLM weights"] + rollout["KV cache"] + rollout["vLLM workspace"] == pytest.approx(5)
    assert got.host == pytest.approx(2 * (training["optimizer"] + training["weights"])), "optimizer and reference"


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("model.resources.gpu_memory_gb=40", "training needs .* of 40 GiB"),
        ("verl.actor_rollout_ref.rollout.gpu_memory_utilization=0.95", "generation needs"),
        ("verl.actor_rollout_ref.rollout.gpu_memory_utilization=0.2", "holds no response of full length"),
        ("model.resources.memory_gb=16", "of 16 GiB of host memory"),
        ("verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu=65536", "training needs"),
    ],
)
def test_what_does_not_fit_is_said(override, why):
    settings, verl = composed("qwen3_14b_base", override)
    problems = gpu_memory.estimate(settings, verl).problems
    assert any(re.search(why, problem) for problem in problems)
    assert "does NOT fit" in gpu_memory.told(
        "x", gpu_memory.layout(settings, verl), gpu_memory.estimate(settings, verl)
    )


def test_more_gpus_hold_less_each_and_cost_the_same():
    one, verl_one = composed("qwen3_8b_base")
    four, verl_four = composed("qwen3_8b_base", "model.resources.nodes=4")
    states = [dict(gpu_memory.estimate(*pair).training)["optimizer"] for pair in ((one, verl_one), (four, verl_four))]
    assert states[0] == pytest.approx(4 * states[1])
    assert gpu_hours.gpu_hours(four, verl_four) == pytest.approx(gpu_hours.gpu_hours(one, verl_one), rel=0.1)


def test_hours_grow_with_what_is_asked():
    def hours(*more):
        return gpu_hours.gpu_hours(*composed("qwen3_8b_base", *more))

    assert hours("steps=80") > 1.8 * hours("steps=40")
    assert hours("recipe.group_size=32") > 1.8 * hours("recipe.group_size=16")
    assert hours("recipe=kl_loss") > hours("recipe=dapo_no_clip_higher"), "a reference pass more"
    assert hours("recipe=grpo") < hours(), "no responses are thrown away"
    assert gpu_hours.gpu_hours(*(lambda c: (c.settings, reference.merged(c.asked)))(compose([]))) == 0


def test_a_cpu_run_has_no_estimate():
    made = compose([])
    assert gpu_memory.estimate(made.settings, reference.merged(made.asked)) is None
