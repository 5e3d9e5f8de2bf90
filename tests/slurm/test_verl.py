"""The real trainer in real jobs, on the CPU platform: one node with a stop in the middle, and two nodes."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from harness import files
from tests.slurm.lab import wait

pytestmark = pytest.mark.slow

PATIENCE = 500.0


def rows(lab, run, kind, step):
    return pq.read_table(lab.store.folder(run) / "outcomes" / kind / f"step_{step:06d}.parquet").to_pylist()


def metrics(lab, run):
    return files.read_json_lines(lab.store.folder(run) / "metrics.jsonl")[0]


def complete(lab, run):
    """Done, and every step recorded once."""
    wait(lambda: lab.done(run), PATIENCE, lambda: lab.trouble(run))
    assert [line["step"] for line in metrics(lab, run)] == [0, 1, 2, 3, 4]
    assert all(len(rows(lab, run, "train", step)) == 4 * 16 for step in (1, 2, 3, 4))
    assert files.read_json(lab.store.folder(run) / "done.json")["evaluations"] == [0, 4]
    wait(lambda: not lab.marked(run), 30)


def test_one_node_saves_when_told_and_goes_on_in_the_same_wandb_run(slurm_lab, verl_runs):
    run, job = verl_runs[0]
    wait(lambda: slurm_lab.step(run) >= 1, PATIENCE, lambda: slurm_lab.trouble(run))
    # What SLURM sends ahead of a time limit, which cannot be shorter than the start of verl on a busy machine.
    slurm_lab.cluster.run("scancel", "--signal=USR2", job)
    wait(lambda: slurm_lab.events(run, "requeued"), PATIENCE, lambda: slurm_lab.trouble(run))
    told = slurm_lab.store.attempts(run)[0]
    assert told["outcome"] == "stopped"
    assert 1 <= told["step"] < 4
    assert slurm_lab.store.checkpoint(run) == told["step"], "saved at the end of its step"
    complete(slurm_lab, run)
    assert [line["attempt"] for line in metrics(slurm_lab, run)] == [1] * (told["step"] + 1) + [2] * (4 - told["step"])
    assert slurm_lab.store.attempts(run)[1]["from"] == told["step"]
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
