"""A stand-in trainer for K searches: real outcome files and metrics whose accuracy depends on K and the seed.

pass@1 falls off on both sides of K = 0.6 by 40 points a unit of K. SEARCH_TRAINER, a JSON object, says what else:
step_seconds, and fail (a label's part: that run raises). A run of more than sixteen samples is
evaluated on another set.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness import files

PROBLEMS, SAMPLES = 30, 16


def accuracy(config: dict, step: int) -> float:
    """Chance that a sample is right at a step."""
    K = config["baseline"]["K"]
    goal = 0.45 if K is None else 0.75 - 0.4 * abs(K - 0.6)
    share = step / config["steps"]
    return 0.3 * (1 - share) + goal * share


def main(folder: Path, attempt: int) -> int:
    """Trains in no time; saves every other step and when it is asked to stop."""
    spec = files.read_json(folder / "spec.json")
    config, wishes = spec["config"], json.loads(os.environ.get("SEARCH_TRAINER", "{}"))
    total, every = config["steps"], config["evaluation"]["every"]
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    tracker = folder / "checkpoints" / "latest_checkpointed_iteration.txt"
    step = int(tracker.read_text()) if tracker.exists() else 0
    files.append_json(folder / "trained.jsonl", {"attempt": attempt, "from": step, "pid": os.getpid()})
    evaluate(folder, config, 0)
    while step < total and not stopped:
        step += 1
        time.sleep(wishes.get("step_seconds", 0.01))
        if step == 2 and wishes.get("fail", "\0") in spec["label"]:
            raise RuntimeError("loss is nan at step 2")
        files.append_json(
            folder / "metrics.jsonl",
            {"step": step, "time": time.time(), "attempt": attempt, "metrics": {"actor/entropy": 1.0 - 0.01 * step}},
        )
        train(folder, config, step)
        if step % every == 0 or step == total:
            evaluate(folder, config, step)
        beat = {"time": time.time(), "step": step, "total": total, "phase": "train", "step_seconds": 0.01}
        files.write_json(folder / "heartbeat.json", {**beat, "metrics": {}})
        if step % 2 == 0 or stopped:
            files.write_text(tracker, str(step))
    return 0


def evaluate(folder: Path, config: dict, step: int) -> None:
    """Every problem its own difficulty, the same in all runs."""
    rng = np.random.default_rng([config["seed"], step, round(100 * (config["baseline"]["K"] or 0))])
    hardness = np.random.default_rng(0).normal(0, 0.1, PROBLEMS)
    chance = np.clip(accuracy(config, step) + hardness + 0.01 * rng.standard_normal(), 0, 1)
    right = (rng.random((PROBLEMS, SAMPLES)) < chance[:, None]).astype(np.float32).ravel()
    rows = PROBLEMS * SAMPLES
    benchmark = "held" if config["evaluation"]["samples"] > SAMPLES else "valid"
    write(
        folder / "outcomes" / "eval" / f"step_{step:06d}.parquet",
        {
            "step": np.full(rows, step, np.int32), "benchmark": [benchmark] * rows,
            "problem": [f"{benchmark}/{i // SAMPLES}" for i in range(rows)],
            "sample": (np.arange(rows) % SAMPLES).astype(np.int16), "seed": np.full(rows, 1, np.int64),
            "reward": right, "accuracy": right, "length": np.full(rows, 5, np.int32), "words": np.zeros(rows, np.int16),
            "answer": ["1"] * rows, "scorer": ["stand-in/1"] * rows,
        },
    )  # fmt: skip


def train(folder: Path, config: dict, step: int) -> None:
    """Four groups of the recipe's size."""
    size = config["recipe"]["group_size"]
    rng = np.random.default_rng([config["seed"], step])
    right = (rng.random(4 * size) < accuracy(config, step)).astype(np.float32)
    rows = len(right)
    write(
        folder / "outcomes" / "train" / f"step_{step:06d}.parquet",
        {
            "step": np.full(rows, step, np.int32), "group": [f"s{step:06d}p{i // size:05d}" for i in range(rows)],
            "query": [f"train/{i // size}" for i in range(rows)], "sample": (np.arange(rows) % size).astype(np.int16),
            "reward": right, "accuracy": right, "length": np.full(rows, 5, np.int32),
            "advantage": np.zeros(rows, np.float32), "entropy": np.full(rows, 1.0, np.float32),
            "words": np.zeros(rows, np.int16),
        },
    )  # fmt: skip


def write(path: Path, columns: dict) -> None:
    """One parquet file, at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as temporary:
        pq.write_table(pa.table(columns), temporary, compression="zstd")


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[3])))
