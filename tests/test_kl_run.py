"""One real run of verl with a KL loss, QAE and the evaluation scorer in verl's reward worker; then evaluated again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from harness.config.compose import project_folder
from harness.tasks.scoring.scorer import SCORER
from tests.trainer.assets import make_assets

pytestmark = pytest.mark.slow

REWARD = """
from harness.tasks.scoring.reward import compute_score as judged

def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    if data_source != "sums":  # evaluation: the real scorer, on a known answer in every other response
        return judged(data_source, f"{solution_str}\\nAnswer: {ord(solution_str[:1] or 'a') % 2}.", "1", extra_info)
    right = (solution_str[:1] < "h") == (ground_truth == "low")
    return {"score": float(right), "acc": float(right), "pred": None}
"""


def test_kl_loss_and_evaluation_scorer_in_a_real_run(tmp_path):
    assets = make_assets(tmp_path / "assets")
    (tmp_path / "reward.py").write_text(REWARD)
    done = subprocess.run(
        [
            sys.executable, "-m", "harness", "train", "model=qwen3_0_6b_base", "platform=cpu", "recipe=kl_loss",
            "baseline=qae", "model.resources.gpus=0", "model.resources.cpus=2", "model.resources.memory_gb=4",
            f"model.path={assets['model']}", "data=gsm8k_train", "evaluation=aime24", "steps=2", "evaluation.every=2",
            f"data.train_files=[{assets['train']}]", f"evaluation.files=[{assets['easy']},{assets['hard']}]",
            "data.max_prompt_length=16", "data.max_response_length=8", "data.overlong_buffer=2", "evaluation.samples=4",
            "evaluation.k=[1,4]", "evaluation.before_training=false", "recipe.group_size=8",
            "recipe.prompts_per_step=4", "recipe.mini_batch=2", "recipe.learning_rate=1e-2",
            "verl.actor_rollout_ref.actor.use_dynamic_bsz=false", "verl.trainer.validation_data_dir=rollouts",
            "verl.actor_rollout_ref.actor.entropy_from_logits_with_chunking=false",
            "verl.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
            "verl.actor_rollout_ref.ref.entropy_from_logits_with_chunking=false",
            "verl.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32",
            "verl.actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32",
            f"verl.reward.custom_reward_function.path={tmp_path / 'reward.py'}", "tracking=none",
        ],
        cwd=project_folder(), env={**os.environ, "HARNESS_RUNS": str(tmp_path / "runs")}, timeout=600,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    (run,) = [path for path in (tmp_path / "runs").iterdir() if (path / "done.json").exists()]
    steps = {
        line["step"]: line["metrics"] for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    }
    assert steps[1]["actor/kl_coef"] == steps[2]["actor/kl_coef"] == 0.001
    assert steps[2]["actor/kl_loss"] > 0, "after an update the policy has left the reference"
    rows = pd.read_parquet(run / "outcomes/eval/step_000002.parquet")
    assert len(rows) == (5 + 6) * 4
    assert set(rows.scorer) == {SCORER}
    assert set(rows.answer) <= {"0", "1"}
    assert (rows.accuracy == (rows.answer == "1")).all()
    assert set(rows.accuracy) == {0.0, 1.0}

    again = subprocess.run(
        [sys.executable, "-m", "harness", "eval", run.name, "--n", "4", "--seeds", "2"],
        cwd=project_folder(), env={**os.environ, "HARNESS_RUNS": str(tmp_path / "runs")}, timeout=600,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 0, (again.stdout + again.stderr)[-4000:]
    assert "easy: pass@1" in again.stdout
    merged = pd.read_parquet(run / "outcomes/eval/step_000002.parquet")
    assert len(merged) == (5 + 6) * 8
    assert merged.groupby("problem").seed.nunique().eq(8).all()
    drawn = pd.read_parquet(run / "evaluations/step_000002/outcomes/eval/step_000002.parquet")
    both = rows.merge(drawn, on=["problem", "seed"])
    assert len(both) == len(rows), "the checkpoint draws the samples of training again, and then more"
    assert (both.answer_x == both.answer_y).all()
    assert (both.length_x == both.length_y).all()
    kept = (run / "rollouts" / "2.jsonl").read_text().splitlines()
    assert len(kept) == (5 + 6) * 4
    assert {"input", "output", "gts", "uid"} <= set(json.loads(kept[0])), "what `harness score` reads"
