from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


def test_jobs_run_on_several_nodes_with_gpus_and_are_accounted(slurm_cluster, tmp_path):
    command = "srun bash -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'"
    job = slurm_cluster.run(
        "sbatch", "--parsable", "--wait", "--nodes=2", "--gres=gpu:2", f"--output={tmp_path}/out", f"--wrap={command}"
    )
    lines = [line.split() for line in (tmp_path / "out").read_text().splitlines()]
    assert sorted(lines) == [["node1", "0,1"], ["node2", "0,1"]]
    rows = slurm_cluster.run("sacct", "-X", "-n", "-P", "-j", job, "-o", "State,AllocTRES")
    assert rows.startswith("COMPLETED|")
    assert "gres/gpu=4" in rows
