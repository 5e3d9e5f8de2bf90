"""The path of a cluster in small: vLLM generates, FSDP trains in bfloat16, two steps, a stop and a resume.

The model and its data are made on the spot. HARNESS_GPU_TEST_ON_CPU=1 takes the CPU mode instead, to check this test
itself on a machine without a GPU; it proves nothing about GPUs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from harness.config.compose import project_folder
from harness.trainer import checkpoints
from tests.trainer.assets import make_assets

ON_CPU = os.environ.get("HARNESS_GPU_TEST_ON_CPU") == "1"
TIMEOUT = 900.0


def why_not() -> str | None:
    """Why this machine cannot run the test, or None."""
    if ON_CPU:
        return None
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed: see docs/gpu.md"
    import torch

    if not torch.cuda.is_available():
        return f"no CUDA GPU (torch {torch.__version__}): run this where there is one, see docs/gpu.md"
    if importlib.util.find_spec("vllm") is None:
        return "vLLM is not installed: see the version table in docs/gpu.md"
    return None


REASON = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=REASON or "")]

PLATFORM = [
    "platform=cpu", "model.resources.gpus=0", "verl.actor_rollout_ref.actor.use_dynamic_bsz=false",
    "verl.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32",
    "verl.actor_rollout_ref.actor.entropy_from_logits_with_chunking=false",
    "verl.actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32",
] if ON_CPU else [
    "verl.actor_rollout_ref.rollout.gpu_memory_utilization=0.3",
    "verl.actor_rollout_ref.rollout.enforce_eager=true",      # CUDA graphs take longer than two steps
    "verl.actor_rollout_ref.rollout.max_num_batched_tokens=2048",
]  # fmt: skip


@pytest.fixture(scope="module")
def assets(tmp_path_factory):
    """The trainer tests' model with heads that vLLM's attention kernels know."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    made = make_assets(tmp_path_factory.mktemp("assets"))
    config = AutoConfig.from_pretrained(made["model"])
    config.update({"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2, "head_dim": 64})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = (
        config.eos_token_id,
        config.pad_token_id,
    )
    model.save_pretrained(made["model"])
    return made


def command(assets, *more):
    return [
        sys.executable, "-m", "harness", "train", "model=qwen3_0_6b_base", f"model.path={assets['model']}",
        "model.resources.memory_gb=8", "model.resources.cpus=2", "recipe=grpo", "recipe.group_size=8",
        "recipe.prompts_per_step=4", "recipe.mini_batch=2", "recipe.learning_rate=1e-3", "baseline=qae",
        "data=gsm8k_train", f"data.train_files=[{assets['train']}]", "data.max_prompt_length=16",
        "data.max_response_length=8", "data.overlong_buffer=2", "evaluation=aime24",
        f"evaluation.files=[{assets['easy']},{assets['hard']}]", "evaluation.samples=4", "evaluation.k=[1,4]",
        "evaluation.every=1", "save_every=1", f"verl.reward.custom_reward_function.path={assets['reward']}",
        "verl.reward.num_workers=1", "verl.actor_rollout_ref.rollout.agent.num_workers=1", *PLATFORM, *more,
    ]  # fmt: skip


def start(arguments, root: Path, log: Path) -> subprocess.Popen:
    environment = {**os.environ, "HARNESS_RUNS": str(root), "WANDB_MODE": "offline", "HF_HUB_OFFLINE": "1"}
    with log.open("ab") as out:
        return subprocess.Popen(
            arguments,
            cwd=project_folder(),
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def finished(process, log):
    try:
        return process.wait(timeout=TIMEOUT)
    finally:
        process.kill()
        print(log.read_text()[-6000:])  # shown by pytest where the test fails


def test_two_steps_a_stop_and_a_resume(assets, tmp_path):
    root, log = tmp_path / "runs", tmp_path / "log"
    arguments = command(assets, "steps=3")
    process = start(arguments, root, log)
    deadline = time.monotonic() + TIMEOUT
    while not list(root.glob("*/checkpoints/global_step_1/sealed.json")):
        assert process.poll() is None, log.read_text()[-6000:]
        assert time.monotonic() < deadline, log.read_text()[-6000:]
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)  # as SLURM does before the wall time ends
    assert finished(process, log) in (0, 130)
    (run,) = [path for path in root.iterdir() if (path / "spec.json").exists()]
    stopped_at = checkpoints.steps(run / "checkpoints")[-1]
    if stopped_at < 3:
        assert not (run / "done.json").exists()
        assert finished(start(arguments, root, log), log) == 0
        assert len(list((run / "attempts").iterdir())) == 2
    assert json.loads((run / "done.json").read_text())["step"] == 3

    steps = {
        line["step"]: line["metrics"] for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    }
    assert sorted(steps) == [0, 1, 2, 3]
    for step in (1, 2, 3):
        assert steps[step]["actor/grad_norm"] >= 0
        assert 0 < steps[step]["actor/entropy"] < 5
        rows = pd.read_parquet(run / f"outcomes/train/step_{step:06d}.parquet")
        assert len(rows) == 4 * 8
    # vLLM and FSDP must hold the same weights: their log-probabilities agree to bfloat16.
    gaps = [value for step in (1, 2, 3) for name, value in steps[step].items() if "rollout_probs_diff_mean" in name]
    assert gaps, "verl compares rollout and training probabilities"
    assert max(gaps) < 0.05
    evaluated = pd.read_parquet(run / "outcomes/eval/step_000003.parquet")
    assert len(evaluated) == (5 + 6) * 4
    spec = json.loads((run / "spec.json").read_text())["verl"]["actor_rollout_ref"]
    if not ON_CPU:
        assert spec["rollout"]["name"] == "vllm"
        assert spec["rollout"]["dtype"] == spec["actor"]["fsdp_config"]["dtype"] == "bfloat16"
