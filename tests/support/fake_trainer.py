"""Stands in for the verl trainer where plans, launches and kills are tested: same files, no learning.

What it does beyond that is told by FAKE_TRAINER, a JSON object, and by `wishes` in a run's spec: step_seconds,
fail (a label's part: that run raises), hang (likewise: it never ends), short (likewise: ends with exit code 0 before
the target step), say (a line to print), raises (an error message), until (the last attempt that does so), eat (MiB of
memory to take), kept (checkpoints are whole and outcomes of evaluations real). It evaluates as well. Each step leaves a line in steps.jsonl, so that tests see repeated steps and two trainers at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from harness import files


def main(folder: Path, attempt: int) -> int:
    spec = files.read_json(folder / "spec.json")
    wishes = json.loads(os.environ.get("FAKE_TRAINER", "{}")) | spec.get("wishes", {})
    total, label, evaluation = spec["config"]["steps"], spec["label"], spec["config"]["evaluation"]
    stopped: list[int] = []
    memory: list[bytes] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    print(wishes.get("say", "hello"))
    if "evaluates" in spec:
        return evaluate(folder, spec, attempt, wishes)
    tracker = folder / "checkpoints" / "latest_checkpointed_iteration.txt"
    step = int(tracker.read_text()) if tracker.exists() else 0
    files.append_json(folder / "trained.jsonl", {"attempt": attempt, "from": step, "pid": os.getpid()})
    if evaluation["before_training"]:
        outcomes(folder, "eval", 0)
    while step < total:
        step += 1
        files.append_json(
            folder / "steps.jsonl", {"step": step, "attempt": attempt, "pid": os.getpid(), "time": time.time()}
        )
        beat(folder, step, total)
        outcomes(folder, "train", step)
        if step % evaluation["every"] == 0 or step == total:
            if "kept" in wishes:
                evaluated(folder, step, evaluation["samples"])
            else:
                outcomes(folder, "eval", step)
        if step % spec["config"]["save_every"] == 0 or stopped or ("kept" in wishes and step == total):
            if "kept" in wishes:
                save(folder / "checkpoints", step, spec["config"]["keep_checkpoints"])
            files.write_text(tracker, str(step))
        if stopped:
            return 0
        if attempt <= wishes.get("until", attempt):
            if "raises" in wishes:
                raise RuntimeError(wishes["raises"])
            memory.append(b"x" * 2**20 * wishes.get("eat", 0))
        if wanted(wishes, "fail", label):
            raise ValueError("loss is nan at step 1")
        if wanted(wishes, "short", label):
            return 0
        while wanted(wishes, "hang", label):
            time.sleep(1)
        time.sleep(wishes.get("step_seconds", 0.01))
    return 0


def evaluate(folder: Path, spec: dict, attempt: int, wishes: dict) -> int:
    """What `trainer.val_only` means: the checkpoint of the step is loaded, its responses are drawn."""
    step = spec["evaluates"]["step"]
    nodes = os.environ.get("SLURM_JOB_NUM_NODES", "")
    files.append_json(folder / "trained.jsonl", {"attempt": attempt, "time": time.time(), "nodes": nodes})
    assert (folder / "checkpoints" / f"global_step_{step}" / "model.pt").read_text() == str(step)
    beat(folder, step, spec["config"]["steps"])
    time.sleep(wishes.get("evaluation_seconds", 0))
    evaluated(folder, step, spec["verl"]["actor_rollout_ref"]["rollout"]["val_kwargs"]["n"])
    return 0


def evaluated(folder: Path, step: int, samples: int) -> None:
    """Outcomes of so many samples of two problems, the same wherever and however often they are drawn."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from harness.trainer.outcomes import EVALUATION

    rows = [
        {"step": step, "benchmark": "sums", "problem": f"sums/p{p}", "sample": s, "seed": 1000 * p + s, "reward": 1.0,
         "accuracy": float((p + s) % 2), "length": 3, "words": 0, "answer": "1", "scorer": "x/1"}
        for p in range(2) for s in range(samples)
    ]  # fmt: skip
    with files.replacing(folder / "outcomes" / "eval" / f"step_{step:06d}.parquet") as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=EVALUATION), temporary)


def save(root: Path, step: int, keep: int) -> None:
    """A whole checkpoint; those beyond the policy go, as with the real trainer."""
    from harness.trainer import checkpoints

    place = checkpoints.folder(root, step)
    files.write_text(place / "model.pt", str(step))
    checkpoints.seal(root, step)
    checkpoints.prune(root, keep)


def wanted(wishes: dict[str, str], key: str, label: str) -> bool:
    return key in wishes and wishes[key] in label


def beat(folder: Path, step: int, total: int) -> None:
    metrics = {"entropy/all": 1.0 / step, "eval/pass@1": 0.5, "advantage/zero_share": 0.8}
    heartbeat = {"time": time.time(), "step": step, "total": total, "phase": "train", "step_seconds": 0.01}
    files.write_json(folder / "heartbeat.json", {**heartbeat, "metrics": metrics})


def outcomes(folder: Path, kind: str, step: int) -> None:
    path = folder / "outcomes" / kind / f"step_{step:06d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as temporary:
        temporary.write_bytes(b"PAR1PAR1")


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[3])))
