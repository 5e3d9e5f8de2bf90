"""Writes run folders as the trainer would, from a simulation of the training: no model, no verl, no W&B SDK.

The shapes are those of the paper: the mean baseline's entropy collapses and its pass@16 falls behind, QAE's
stays level, a larger K gives a higher entropy, and about 80 % of QAE's responses get a zero advantage.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.support import wandb_log

BENCHMARKS = ("add_easy", "add_hard")
WORDS = (
    "wait",
    "perhaps",
    "alternatively",
    "maybe",
    "so",
    "thus",
    "let",
    "sum",
    "=",
    "carry",
    "then",
    "check",
)
_START = 1_790_000_000.0


@dataclass(frozen=True, slots=True)
class Arm:
    """What an arm of the sweep sets; everything else is shared by all."""

    baseline: str = "mean"
    K: float | None = None
    mask: str = "both"
    model: str = "tiny"
    group_size: int = 16
    eps_high: float = 0.28

    @property
    def label(self) -> str:
        kind = "mean (GRPO)" if self.baseline == "mean" else self.baseline.upper()
        kind += {"positive": " POS-MASK", "negative": " NEG-MASK"}.get(self.mask, "")
        kind += "" if self.K is None else f" K={self.K:g}"
        return f"{kind}, {self.model}"


SMOKE = (Arm(), Arm("qae", 0.4), Arm("qae", 0.6))


@dataclass(frozen=True, slots=True)
class Size:
    """How much every run of a sweep holds."""

    steps: int = 40
    every: int = 10
    problems: int = 24
    """Of each of the two benchmarks."""
    samples: int = 16
    groups: int = 8
    train_every: int = 1
    """Steps between two files of training outcomes."""
    wandb: bool = True
    """Whether W&B's offline file is written beside metrics.jsonl."""


def write_sweep(
    root: Path,
    arms: Sequence[Arm] = SMOKE,
    seeds: Sequence[int] = (1, 2, 3),
    size: Size | None = None,
    *,
    name: str = "smoke",
    against: str = "mean",
) -> list[Path]:
    """Writes one finished run an arm and seed under `root`/<id>, and which runs the sweep `name` consists of.

    Returns the folders, arms outermost.
    """
    folders = [write_run(root, arm, seed, size) for arm in arms for seed in seeds]
    labels = [f"{arm.label}, seed {seed}" for arm in arms for seed in seeds]
    points = [{"id": f.name, "label": label, "overrides": []} for f, label in zip(folders, labels, strict=True)]
    record = {"sweep": name, "question": "Does QAE keep the entropy?", "compare": {"against": against},
              "applied": "2026-11-30T12:00:00+00:00", "points": points}  # fmt: skip
    (root / "_sweeps").mkdir(exist_ok=True)
    (root / "_sweeps" / f"{name}.json").write_text(json.dumps(record))
    return folders


def write_run(root: Path, arm: Arm, seed: int, size: Size | None = None) -> Path:
    """One run's folder: spec.json, metrics.jsonl, outcomes/{train,eval,tokens}, done.json."""
    size = size or Size()
    steps = size.steps
    config = configuration(arm, seed, size)
    identity = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:10]
    folder = root / identity
    folder.mkdir(parents=True)
    spec = {
        "schema": 1, "id": identity, "label": f"{arm.label}, seed {seed}", "signature": config, "config": config,
        "verl": {"actor_rollout_ref": {"actor": {"clip_ratio_high": arm.eps_high}}},
        "provenance": {"git_sha": "0123456789" * 4, "git_dirty": False, "created": "2026-11-30T12:00:00+00:00",
                       "versions": {"python": "3.11.2", "verl": "0.9.1"}},
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec, indent=1))
    rng = np.random.default_rng(int(identity, 16))
    ability = seed_ability(arm, rng, steps)
    train = training(arm, rng, ability, steps, size.groups)
    evaluations = sorted({0, *range(size.every, steps + 1, size.every), steps})
    scores = {step: evaluation(arm, rng, ability[step], step, size) for step in evaluations}
    rows = history(train, scores)
    _write_metrics(folder, rows)
    if size.wandb:
        _write_wandb(folder, config, rows)
    for step in range(size.train_every, steps + 1, size.train_every):
        _parquet(train_rows(train, step), folder / "outcomes" / "train" / f"step_{step:06d}.parquet")
    for step, frame in scores.items():
        _parquet(frame, folder / "outcomes" / "eval" / f"step_{step:06d}.parquet")
    for step in sorted({1, max(steps // 2, 1), steps}):
        path = folder / "outcomes" / "tokens" / f"step_{step:06d}.parquet"
        _parquet(token_rows(rng, train["entropy"][step - 1]), path)
    done = {"step": steps, "total": steps, "evaluations": evaluations, "time": _START + 2.0 * steps, "attempts": 1}
    (folder / "done.json").write_text(json.dumps(done))
    return folder


def configuration(arm: Arm, seed: int, size: Size) -> dict[str, Any]:
    """The composed groups of one run, as the spec holds them."""
    return {
        "seed": seed, "steps": size.steps,
        "model": {"name": arm.model, "parameters": 300_000 if arm.model == "tiny" else 1_000_000, "path": None,
                  "builtin": arm.model},
        "baseline": {"name": arm.baseline, "K": arm.K, "mask": arm.mask, "interpolation": "exact",
                     "norm_by_std": True, "success_threshold": None, "reference_K": 0.4},
        "recipe": {"name": "dapo", "group_size": arm.group_size, "prompts_per_step": size.groups,
                   "clip_high": arm.eps_high},
        "data": {"name": "arithmetic"},
        "evaluation": {"name": "arithmetic", "samples": size.samples, "temperature": 1.0, "every": size.every,
                       "k": [1, 16] if size.samples >= 16 else [1]},
        "words": ["wait", "perhaps", "alternatively"], "cluster": {"name": "local"},
        "tracking": {"name": "offline", "project": "qae"},
    }  # fmt: skip


def seed_ability(arm: Arm, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Log odds of success on a middling problem after each step, (steps + 1,)."""
    t = np.arange(steps + 1) / steps
    gain = 1.6 if arm.K is None else 2.2 - 3.0 * abs(arm.K - 0.4)
    return -0.6 + gain * (1 - np.exp(-3 * t)) + rng.normal(0, 0.15) * t


def entropy_curve(arm: Arm, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Nats a token after each step, (steps,): mean collapses, QAE is level and higher for a larger K."""
    t = np.arange(1, steps + 1) / steps
    if arm.K is None:
        level = 0.62 * np.exp(-6.0 * t) + 0.02
    else:
        level = 0.62 + (arm.K - 0.4) * 0.9 * t - 0.12 * (1 - np.exp(-5 * t))
    return level * np.exp(rng.normal(0, 0.05, steps)) * math.exp(rng.normal(0, 0.06))


def training(arm: Arm, rng: np.random.Generator, ability: np.ndarray, steps: int, groups: int) -> dict[str, Any]:
    """Rewards and advantages of every step, (steps, groups, G), with entropy and length by response."""
    G = arm.group_size
    easy = rng.normal(0, 1.8, (steps, groups))
    p = 1 / (1 + np.exp(-(ability[1:, None] + easy)))
    rewards = (rng.random((steps, groups, G)) < p[..., None]).astype(float)
    failures = (G - rewards.sum(2)).astype(int)
    K = Fraction(str(0.4 if arm.K is None else arm.K))
    hard = failures >= math.ceil(K * G)
    baseline = rewards.mean(2) if arm.K is None else np.where(hard, 0.0, 1.0)
    spread = rewards.std(2, ddof=1)
    advantage = (rewards - baseline[..., None]) / (spread[..., None] + 1e-6)
    advantage[spread == 0] = 0.0
    entropy = entropy_curve(arm, rng, steps)
    by_response = entropy[:, None, None] * np.exp(0.25 * np.sign(advantage) + rng.normal(0, 0.2, advantage.shape))
    length = (60 + 80 * entropy)[:, None, None] * np.exp(rng.normal(0, 0.25, advantage.shape))
    words = rng.poisson((0.2 + 2.0 * entropy)[:, None, None], advantage.shape)
    return {
        "reward": rewards,
        "advantage": advantage,
        "hard": hard,
        "entropy": entropy,
        "words": words,
        "by_response": by_response,
        "length": length.astype(int),
        "rng": rng,
    }


def evaluation(arm: Arm, rng: np.random.Generator, ability: float, step: int, size: Size) -> pd.DataFrame:
    """One row a sampled response. A collapsed policy solves a problem always or never: low pass@16."""
    shared = np.random.default_rng(7)  # the same problems for every run
    problems, samples = size.problems, size.samples
    sharpness = 1.0 + (1.2 if arm.K is None else 0.2) * step / size.steps
    frames = []
    for benchmark, shift in zip(BENCHMARKS, (0.8, -0.9), strict=True):
        difficulty = shared.normal(0, 1.4, problems)
        p = 1 / (1 + np.exp(-sharpness * (ability + shift - difficulty)))
        right = rng.random((problems, samples)) < p[:, None]
        answer = np.where(right, "42", rng.integers(0, 5, (problems, samples)).astype(str))
        names = [f"{benchmark}/{i}" for i in range(problems)]
        frames.append(
            pd.DataFrame(
                {
                    "step": np.int32(step),
                    "benchmark": benchmark,
                    "problem": np.repeat(names, samples),
                    "sample": np.tile(np.arange(samples, dtype=np.int16), problems),
                    "seed": np.int64(0),
                    "reward": right.ravel().astype(np.float32),
                    "accuracy": right.ravel().astype(np.float32),
                    "length": rng.integers(20, 140, problems * samples).astype(np.int32),
                    "words": rng.poisson(1.0, problems * samples).astype(np.int16),
                    "answer": answer.ravel(),
                    "scorer": "arithmetic/1",
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def train_rows(train: dict[str, Any], step: int) -> pd.DataFrame:
    """The outcome rows of one training step."""
    reward = train["reward"][step - 1]
    groups, G = reward.shape
    return pd.DataFrame(
        {
            "step": np.int32(step),
            "group": np.repeat([f"s{step:06d}p{i:05d}" for i in range(groups)], G),
            "query": np.repeat([f"add_train/{(step * groups + i) % 512}" for i in range(groups)], G),
            "sample": np.tile(np.arange(G, dtype=np.int16), groups),
            "reward": reward.ravel().astype(np.float32),
            "accuracy": reward.ravel().astype(np.float32),
            "length": train["length"][step - 1].ravel().astype(np.int32),
            "advantage": train["advantage"][step - 1].ravel().astype(np.float32),
            "entropy": train["by_response"][step - 1].ravel().astype(np.float32),
            "words": train["words"][step - 1].ravel().astype(np.int16),
        }
    )


def token_rows(rng: np.random.Generator, entropy: float) -> pd.DataFrame:
    """The tokens of one step, most uncertain first."""
    mean = np.sort(entropy * rng.gamma(2.0, 0.8, len(WORDS)))[::-1]
    return pd.DataFrame(
        {
            "token": np.arange(len(WORDS), dtype=np.int32),
            "text": list(WORDS),
            "count": rng.integers(5, 400, len(WORDS)).astype(np.int64),
            "mean_entropy": mean.astype(np.float32),
            "top20": rng.integers(0, 5, len(WORDS)).astype(np.int64),
        }
    )


def step_metrics(train: dict[str, Any], step: int) -> dict[str, float]:
    """What the logger gets at one training step."""
    i = step - 1
    advantage, reward, entropy = train["advantage"][i], train["reward"][i], train["by_response"][i]
    success = reward.mean(1)
    metrics = {
        "training/global_step": step,
        "actor/entropy": float(train["entropy"][i]),
        "actor/pg_clipfrac": float(0.002 + 0.001 * train["entropy"][i]),
        "critic/score/mean": float(reward.mean()),
        "response_length/mean": float(train["length"][i].mean()),
        "response/length_mean": float(train["length"][i].mean()),
        "response/words_mean": float(train["words"][i].mean()),
        "advantage/zero_share": float((advantage == 0).mean()),
        "advantage/positive_share": float((advantage > 0).mean()),
        "advantage/negative_share": float((advantage < 0).mean()),
        "group/hard_share": float(train["hard"][i].mean()),
        "group/easy_share": float(1 - train["hard"][i].mean()),
        "group/all_equal_share": float(((success == 0) | (success == 1)).mean()),
        "group/success_rate": float(success.mean()),
        "group/discarded": 0.0,
        "entropy/all": float(entropy.mean()),
    }
    for name, where in (("positive", advantage > 0), ("negative", advantage < 0), ("zero", advantage == 0)):
        if where.any():
            metrics[f"entropy/{name}"] = float(entropy[where].mean())
    return metrics


def evaluation_metrics(frame: pd.DataFrame) -> dict[str, float]:
    """pass@1 and pass@16 by benchmark and over all, straight from the definition."""
    metrics: dict[str, float] = {}
    for benchmark, rows in frame.groupby("benchmark"):
        right = rows.pivot(index="problem", columns="sample", values="accuracy").to_numpy()
        metrics[f"eval/{benchmark}/pass@1"] = float(right.mean())
        metrics[f"eval/{benchmark}/length_mean"] = float(rows["length"].mean())
        if right.shape[1] >= 16:
            n, c = right.shape[1], right.sum(1).astype(int)
            metrics[f"eval/{benchmark}/pass@16"] = float(
                np.mean([1 - math.comb(n - int(x), 16) / math.comb(n, 16) for x in c])
            )
    for k in (1, 16):
        values = [value for name, value in metrics.items() if name.endswith(f"pass@{k}")]
        if values:
            metrics[f"eval/pass@{k}"] = float(np.mean(values))
    return metrics


def history(train: dict[str, Any], scores: dict[int, pd.DataFrame]) -> dict[int, dict[str, float]]:
    """Step -> what the logger got at it; step 0 has only the evaluation before training."""
    rows = {}
    for step in range(0 if 0 in scores else 1, len(train["entropy"]) + 1):
        rows[step] = step_metrics(train, step) if step else {"training/global_step": 0}
        if step in scores:
            rows[step] |= evaluation_metrics(scores[step])
    return rows


def _write_metrics(folder: Path, rows: dict[int, dict[str, float]]) -> None:
    with (folder / "metrics.jsonl").open("w") as file:
        for step, metrics in rows.items():
            row = {"step": step, "time": _START + 2.0 * step, "attempt": 1, "metrics": metrics}
            file.write(json.dumps(row) + "\n")


def _write_wandb(folder: Path, config: dict[str, Any], rows: dict[int, dict[str, float]]) -> None:
    start = wandb_log.run(folder.name, int(_START), config, project="qae", group="smoke", name=folder.name)
    records = [wandb_log.history({"_step": step, **metrics}) for step, metrics in rows.items()]
    wandb_log.write(folder, folder.name, [start, *records, wandb_log.leave()])


def _parquet(frame: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path, index=False, compression="zstd")
