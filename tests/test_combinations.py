"""Every model, recipe and baseline together, against the pinned verl."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys

import pytest

from harness.config import reference
from harness.config.compose import compose, groups, project_folder
from harness.trainer.environment import PLUGIN, cpu_variables

pytestmark = pytest.mark.slow  # many processes, files or figures

BASELINES = {"mean", "mean_no_std", "qae", "rloo"}
RECIPES = {"grpo", "dapo", "dapo_no_clip_higher", "clip_cov", "kl_cov", "gspo", "kl_loss"}


def run(module, *arguments):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ, **cpu_variables(os.environ), "VERL_USE_EXTERNAL_MODULES": PLUGIN, "HF_HUB_OFFLINE": "1",
        "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)], cwd=project_folder(), env=environment,
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_groups_are_complete():
    assert set(groups()["baseline"]) == BASELINES
    assert set(groups()["recipe"]) == RECIPES


@pytest.mark.parametrize("recipe", sorted(RECIPES))
@pytest.mark.parametrize("model", ["tiny", "qwen3_8b_base"])
def test_every_recipe_composes_in_struct_mode(model, recipe):
    for baseline in BASELINES:
        made = compose([f"model={model}", f"recipe={recipe}", f"baseline={baseline}"])
        assert reference.unknown_keys(made.asked) == []
        assert made.settings.recipe.name == recipe, "a recipe that builds on another has its own name"


def test_the_papers_settings():
    made = compose(["model=qwen3_8b_base", "recipe=dapo", "data=dapo_math_17k", "evaluation=paper", "baseline=qae"])
    verl = reference.merged(made.asked)
    actor, rollout = verl["actor_rollout_ref"]["actor"], verl["actor_rollout_ref"]["rollout"]
    assert (actor["clip_ratio_low"], actor["clip_ratio_high"]) == (0.2, 0.28)
    assert (verl["data"]["train_batch_size"], actor["ppo_mini_batch_size"]) == (512, 32)
    assert verl["data"]["max_response_length"] == rollout["response_length"] == 20480
    assert verl["reward"]["reward_kwargs"]["overlong_buffer_cfg"] == {
        "enable": True, "len": 4096, "penalty_factor": 1.0, "log": False,
    }  # fmt: skip
    assert verl["reward"]["reward_manager"]["name"] == "dapo"
    assert (actor["optim"]["lr"], actor["optim"]["lr_warmup_steps"]) == (1e-6, 0)
    assert actor["loss_agg_mode"] == "token-mean"
    assert not actor["use_kl_loss"]
    assert actor["entropy_coeff"] == 0
    assert verl["algorithm"]["filter_groups"]["enable"]
    assert rollout["val_kwargs"]["n"] == 32
    assert rollout["val_kwargs"]["temperature"] == 0.7
    assert rollout["name"] == "vllm"
    assert verl["algorithm"]["qae"]["K"] == 0.4
    gspo = reference.merged(compose(["model=qwen3_30b_a3b_base", "recipe=gspo"]).asked)["actor_rollout_ref"]["actor"]
    assert (gspo["clip_ratio_low"], gspo["clip_ratio_high"], 512 // gspo["ppo_mini_batch_size"]) == (3e-4, 4e-4, 4)
    assert gspo["loss_agg_mode"] == "seq-mean-token-mean"


def test_scorer_in_the_configuration_is_the_scorer_of_the_code():
    from harness.tasks.scoring.scorer import SCORER

    for data in ("dapo_math_17k", "gsm8k_train"):
        made = compose(["model=qwen3_8b_base", f"data={data}", "evaluation=paper"])
        assert made.asked["harness"]["scorer"] == SCORER


@pytest.mark.slow
def test_verls_own_validation_of_all_combinations():
    out = run("tests.support.validate_configs").splitlines()
    assert [line for line in out if line.startswith("FAILED")] == []
    assert f"CHECKED {len(groups()['model']) * len(RECIPES) * len(BASELINES)}" in out


@pytest.mark.slow
def test_every_loss_trains_two_steps_with_every_baseline(tmp_path):
    lines = [
        json.loads(line.removeprefix("RESULT "))
        for line in run("tests.support.loss_modes", tmp_path).splitlines()
        if line.startswith("RESULT ")
    ]
    assert {(line["recipe"], line["baseline"]) for line in lines} == {(r, b) for r in RECIPES for b in BASELINES}
    for line in lines:
        assert len(line["steps"]) == 2
        for step in line["steps"]:
            assert step["moved"] > 0, line
            assert math.isfinite(step["actor/pg_loss"])
            assert step["grad_norm"] > 0
    by_recipe = {recipe: [line for line in lines if line["recipe"] == recipe] for recipe in RECIPES}
    modes = {recipe: {line["loss_mode"] for line in found} for recipe, found in by_recipe.items()}
    vanilla = {"grpo", "dapo", "dapo_no_clip_higher", "kl_loss"}
    assert modes == {recipe: {"vanilla" if recipe in vanilla else recipe} for recipe in RECIPES}

    def values(recipe, metric):
        return [step.get(metric) for line in by_recipe[recipe] for step in line["steps"]]

    assert all(value > 0 for value in values("kl_loss", "kl_loss")), "the KL term is there"
    assert set(values("dapo", "kl_loss")) == {None}
    assert max(values("gspo", "actor/pg_clipfrac")) > 0.1, "its tight clip bites"
    assert max(values("clip_cov", "actor/pg_clipfrac")) > 0, "some token of high covariance lost its gradient"
    assert set(values("kl_cov", "actor/pg_clipfrac")) == {None}, "this loss does not clip"
