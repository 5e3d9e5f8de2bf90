"""Real runs of verl on the CPU: what they record, that it can be repeated, and that a kill loses nothing.

Four runs of one specification, QAE with dynamic sampling: undisturbed, and killed and resumed, these by way of the fork
server; and started as ever, with verl's own agent loop workers and a task runner of its own, stopped by a signal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch

from analysis.sources import local
from harness.trainer import checkpoints, environment, processes, seeds
from harness.trainer.advantage import quantile_advantage
from harness.trainer.cpu import forkserver

pytestmark = pytest.mark.slow

STEPS = 12
SAVE = 5
OVERRIDES = {
    "algorithm.adv_estimator": "qae",
    "algorithm.qae": {"K": 0.4},
    "algorithm.filter_groups.enable": True,
    "actor_rollout_ref.rollout.n": 4,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 16,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 16,
    "trainer.total_training_steps": STEPS,
    "trainer.save_freq": SAVE,
    "trainer.test_freq": 4,
}
TIMEOUT = 900.0
"""Seconds after which a run hangs; it takes less than a minute where the machine has nothing else to do."""


def start(run_dir: Path, attempt: int, added: Mapping[str, str] | None = None) -> subprocess.Popen:
    folder = run_dir / "attempts" / f"{attempt:03d}"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "harness.trainer.main", str(run_dir), "--attempt", str(attempt)]
    variables = {name: value for name, value in os.environ.items() if name != forkserver.forkclient.VARIABLE}
    variables |= added or {}
    with (folder / "stdout.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=variables)


def finish(process: subprocess.Popen, run_dir: Path, attempt: int, code: int = 0) -> None:
    folder = run_dir / "attempts" / f"{attempt:03d}"
    try:
        assert process.wait(timeout=TIMEOUT) == code, (folder / "stdout.log").read_text()[-4000:]
        assert processes.marked(folder) == []
    finally:
        process.kill()
        processes.end(folder)


def metrics(run_dir: Path) -> dict[int, dict]:
    path = run_dir / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {line["step"]: line["metrics"] for line in lines}


def wait_for_step(process: subprocess.Popen, run_dir: Path, step: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while step not in metrics(run_dir):
        assert process.poll() is None, "the run ended early"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def files(run_dir: Path) -> dict[str, bytes]:
    root = run_dir / "outcomes"
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*.parquet"))}


def table(run_dir: Path, kind: str, step: int) -> pd.DataFrame:
    return pd.read_parquet(run_dir / "outcomes" / kind / f"step_{step:06d}.parquet")


@pytest.fixture(scope="module")
def fork_server(make_run: Callable[..., Path]) -> Iterator[forkserver.ForkServer]:
    spec = json.loads((make_run(OVERRIDES) / "spec.json").read_text())
    shared = environment.shared_variables(spec, os.environ)
    with forkserver.ForkServer.start({**os.environ, **shared}) as server:
        yield server
        assert "declined" not in (server.folder / "log").read_text()


@pytest.fixture(scope="module")
def undisturbed(make_run: Callable[..., Path], fork_server: forkserver.ForkServer) -> Path:
    run_dir = make_run(OVERRIDES, baseline={"name": "qae", "K": 0.4})
    finish(start(run_dir, 1, fork_server.environment()), run_dir, 1)
    return run_dir


def test_every_step_and_evaluation_is_on_disk(undisturbed):
    names = [f"eval/step_{step:06d}.parquet" for step in (0, 4, 8, 12)] + ["tokens/step_000002.parquet"]
    names += [f"train/step_{step:06d}.parquet" for step in range(1, STEPS + 1)]
    assert sorted(files(undisturbed)) == sorted(names)
    assert sorted(metrics(undisturbed)) == list(range(STEPS + 1))
    beat = json.loads((undisturbed / "heartbeat.json").read_text())
    assert (beat["phase"], beat["step"], beat["total"]) == ("end", STEPS, STEPS)
    assert {"actor/entropy", "eval/pass@1", "advantage/zero_share"} <= set(beat["metrics"])
    root = undisturbed / "checkpoints"
    assert checkpoints.steps(root) == [10, 12]
    assert all(checkpoints.is_sealed(root, step) for step in (10, 12))
    assert checkpoints.tracked(root) == STEPS


def test_rows_agree_with_recomputed_advantages_and_with_verls_own_numbers(undisturbed):
    logged = metrics(undisturbed)
    for step in range(1, STEPS + 1):
        rows, values = table(undisturbed, "train", step), logged[step]
        assert len(rows) == 16
        assert (rows.groupby("group").size() == 4).all()
        rewards = torch.tensor(rows.reward.to_numpy())
        expected = quantile_advantage(rewards, rows.group.to_numpy(dtype=object), K=0.4)
        np.testing.assert_allclose(rows.advantage, expected, atol=1e-6)
        shares = [values[f"advantage/{sign}_share"] for sign in ("zero", "positive", "negative")]
        assert sum(shares) == pytest.approx(1.0)
        assert shares[0] == pytest.approx((rows.advantage == 0).mean())
        assert values["group/hard_share"] + values["group/easy_share"] == pytest.approx(1.0)
        assert values["critic/score/mean"] == pytest.approx(rows.reward.mean())
        assert values["response_length/mean"] == pytest.approx(rows.length.mean())
        assert values["actor/entropy"] == pytest.approx(np.average(rows.entropy, weights=rows.length), abs=1e-5)
        assert values["entropy/all"] == pytest.approx(values["actor/entropy"], abs=1e-5)
        assert values["group/all_equal_share"] == 0.0  # dynamic sampling dropped those


def test_dynamic_sampling_is_counted(undisturbed):
    logged = metrics(undisturbed)
    discarded = [logged[step]["group/discarded"] for step in range(1, STEPS + 1)]
    assert sum(discarded) > 0
    drawn = [table(undisturbed, "train", step).group.max() for step in range(1, STEPS + 1)]
    positions = [int(seeds.TRAIN_UID.fullmatch(uid)[2]) for uid in drawn]
    # Four groups stay of those that were drawn, whose uids count from 0.
    assert all(position >= 3 for position in positions)
    assert all(count >= position + 1 - 4 for count, position in zip(discarded, positions, strict=True))


def test_evaluation_rows(undisturbed):
    for step in (0, 4, 8, 12):
        rows, values = table(undisturbed, "eval", step), metrics(undisturbed)[step]
        assert len(rows) == (5 + 6) * 4
        pairs = zip(rows.problem, rows["sample"], strict=True)
        assert rows.seed.tolist() == [seeds.evaluation_seed(7, step, problem, sample) for problem, sample in pairs]
        assert set(rows.scorer) == {"halves/1"}
        assert values["eval/easy/pass@1"] == pytest.approx(rows[rows.benchmark == "easy"].accuracy.mean())
        assert values["training/global_step"] == step


def test_the_wandb_history_is_complete(undisturbed):
    (run,) = local.load(undisturbed / "wandb")
    assert run.history.index.tolist() == list(range(STEPS + 1))
    assert run.id == undisturbed.name
    assert run.config["verl"]["algorithm"]["adv_estimator"] == "qae"
    assert run.config["baseline"]["K"] == 0.4
    assert {"qae", "K=0.4"} <= set(run.tags)


def test_a_run_killed_in_mid_training_resumes_to_the_same_files(undisturbed, make_run, fork_server):
    run_dir = make_run(OVERRIDES, baseline={"name": "qae", "K": 0.4})
    process = start(run_dir, 1, fork_server.environment())
    folder = run_dir / "attempts" / "001"
    try:
        wait_for_step(process, run_dir, SAVE + 2)
        tree = processes.marked(folder)
        assert len(tree) > 5
        for pid in [process.pid, *tree]:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        assert processes.wait(folder, 20.0)
        _, alive = psutil.wait_procs(psutil.Process(fork_server.process.pid).children(recursive=True), timeout=20.0)
        assert not alive  # what was forked does not carry the attempt's marker
    finally:
        process.kill()
        processes.end(folder)
    assert STEPS not in metrics(run_dir)
    before = files(run_dir)
    assert {name: before[name] for name in before} == {name: files(undisturbed)[name] for name in before}

    finish(start(run_dir, 2, fork_server.environment()), run_dir, 2)
    assert files(run_dir) == files(undisturbed)
    expected, found = metrics(undisturbed), metrics(run_dir)
    assert sorted(found) == sorted(expected)
    for step in expected:
        same = {name for name in expected[step] if not name.startswith(("timing", "perf", "actor/perf"))}
        assert {name: found[step].get(name) for name in same} == {name: expected[step][name] for name in same}
    (run,) = local.load(run_dir / "wandb")
    assert len(list((run_dir / "wandb").glob("offline-run-*"))) == 2
    assert run.history.index.tolist() == list(range(STEPS + 1))
    (other,) = local.load(undisturbed / "wandb")
    columns = ["actor/entropy", "advantage/zero_share", "critic/score/mean", "eval/pass@1", "group/discarded"]
    pd.testing.assert_frame_equal(run.history[columns], other.history[columns])


def test_verls_own_workers_give_the_same_files_and_a_signal_ends_the_run_cleanly(undisturbed, make_run):
    overrides = {**OVERRIDES, "harness.batched_rollout": False, "harness.trainer_in_driver": False}
    run_dir = make_run(overrides, baseline={"name": "qae", "K": 0.4})
    process = start(run_dir, 1)
    try:
        wait_for_step(process, run_dir, 2)
        process.send_signal(signal.SIGTERM)
    finally:
        finish(process, run_dir, 1)
    last = max(metrics(run_dir))
    assert 2 <= last < STEPS
    assert checkpoints.tracked(run_dir / "checkpoints") == last
    mine = files(run_dir)
    assert f"train/step_{last:06d}.parquet" in mine
    assert mine == {name: files(undisturbed)[name] for name in mine}
    (run,) = local.load(run_dir / "wandb")
    assert run.history.index.tolist() == list(range(last + 1))
