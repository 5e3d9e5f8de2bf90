"""The real trainer in real jobs, on the CPU platform: one node with a stop in the middle, and two nodes."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from harness import files
from tests.cluster.lab import wait

pytestmark = pytest.mark.slow

PATIENCE = 500.0
STEPS = 6


def rows(lab, run, kind, step):
    return pq.read_table(lab.store.folder(run) / "outcomes" / kind / f"step_{step:06d}.parquet").to_pylist()


def metrics(lab, run):
    return files.read_json_lines(lab.store.folder(run) / "metrics.jsonl")[0]


def complete(lab, run):
    """Done, and every step recorded once."""
    wait(lambda: lab.done(run), PATIENCE, lambda: lab.trouble(run))
    assert [line["step"] for line in metrics(lab, run)] == list(range(STEPS + 1))
    assert all(len(rows(lab, run, "train", step)) == 4 * 16 for step in range(1, STEPS + 1))
    assert files.read_json(lab.store.folder(run) / "done.json")["evaluations"] == [0, STEPS]
    wait(lambda: not lab.marked(run), 30)


def test_one_node_saves_when_told_and_goes_on_in_the_same_wandb_run(slurm_lab, verl_runs):
    run, job = verl_runs[0]
    complete(slurm_lab, run)
    told, last = slurm_lab.store.attempts(run)
    assert (told["outcome"], told["job"], last["outcome"]) == ("stopped", job, "done")
    assert 1 <= told["step"] < STEPS
    assert last["from"] == told["step"], "saved at the end of its step"
    attempts = [line["attempt"] for line in metrics(slurm_lab, run)]
    assert attempts == [1] * (told["step"] + 1) + [2] * (STEPS - told["step"])
    wandb = sorted(path.name for path in slurm_lab.store.folder(run).glob("wandb/offline-run-*/run-*.wandb"))
    assert wandb == [f"run-{run}.wandb"] * 2


def test_two_nodes_train_one_model(slurm_lab, verl_runs):
    run, _ = verl_runs[1]
    complete(slurm_lab, run)
    record = slurm_lab.store.attempts(run)[0]
    assert len(record["nodes"]) == 2
    shards = {p.name for p in slurm_lab.store.folder(run).glob("checkpoints/global_step_*/actor/model_world_size_*.pt")}
    assert shards == {"model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt"}
    # The log-probabilities of the rollout and of the actor agree: weights arrive at the servers of both nodes.
    for line in metrics(slurm_lab, run)[1:]:
        assert line["metrics"]["training/rollout_actor_probs_pearson_corr"] > 0.999
