from __future__ import annotations

import os

from harness.running.job import ray_node
from harness.running.job.ray_node import Size
from harness.store.claim import process_start

CPU = {
    "trainer": {"device": "cpu", "n_gpus_per_node": 1},
    "ray_kwargs": {"ray_init": {"num_cpus": 16, "num_gpus": 1}},
}
GPU = {"trainer": {"device": "cuda", "n_gpus_per_node": 8}, "ray_kwargs": {"ray_init": {"num_cpus": None}}}


def test_ray_hands_out_the_jobs_cores_and_gpus_on_the_cpu_platform_logical_ones():
    assert ray_node.size(GPU, 64) == Size(cpus=64, gpus=8, object_store=None)
    assert ray_node.size(CPU, 2) == Size(cpus=16, gpus=1, object_store=ray_node.CPU_OBJECT_STORE_BYTES)


def test_what_misleads_ray_or_verl_does_not_reach_them():
    job = {"RAY_ADDRESS": "elsewhere:1", "ROCR_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0,1", "HOME": "/h"}
    assert ray_node.clean(job, {"verl": GPU}) == {"CUDA_VISIBLE_DEVICES": "0,1", "HOME": "/h"}
    assert ray_node.clean(job, {"verl": CPU}) == {"HOME": "/h"}


def test_only_folders_whose_owner_is_gone_are_removed(tmp_path):
    me, start = os.getpid(), process_start(os.getpid())
    notes = {"hr-aaaaaa-1": f"{me} {start}", "hr-aaaaaa-2": f"{me} {start - 1}", "hr-aaaaaa-3": "", "other": "1 1"}
    for name, note in notes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "owner").write_text(note)
    (tmp_path / "hr-aaaaaa-4").mkdir()
    ray_node.sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hr-aaaaaa-1", "hr-aaaaaa-3", "hr-aaaaaa-4", "other"]
