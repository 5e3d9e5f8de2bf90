from __future__ import annotations

import pytest

from harness.running.job import oom_kills

V2 = ("0::/slurm/job_7/step_0/task_0\n", "slurm/job_7/step_0/task_0/memory.events", "low 0\noom 3\noom_kill 2\n")
V1 = (
    "9:cpu,cpuacct:/x\n4:memory:/slurm/job_7\n0::/y\n",
    "memory/slurm/job_7/memory.oom_control",
    "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
)


@pytest.mark.parametrize("groups, file, content", [V2, V1])
def test_the_kernels_count(tmp_path, groups, file, content):
    (tmp_path / "cgroup").write_text(groups)
    assert oom_kills.kills(tmp_path / "cgroup", tmp_path) == 0, "no such cgroup"
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(content)
    assert oom_kills.kills(tmp_path / "cgroup", tmp_path) == 2
    assert oom_kills.kills(tmp_path / "absent", tmp_path) == 0
