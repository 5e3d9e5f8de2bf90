from __future__ import annotations

import pytest

from harness.errors import HarnessError
from harness.running.job import allocation
from harness.running.job.allocation import Allocation
from harness.slurm import command

STEP = {
    "SLURM_JOB_ID": "71", "SLURM_PROCID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURMD_NODENAME": "n4",
    "SLURM_JOB_NODELIST": "n[3-4]", "SLURM_CPUS_ON_NODE": "8", "CUDA_VISIBLE_DEVICES": "0,1,2",
}  # fmt: skip


def test_a_task_of_an_array_is_named_by_its_index_never_by_the_id_that_the_last_one_shares_with_the_array():
    task = {**STEP, "SLURM_ARRAY_JOB_ID": "71", "SLURM_ARRAY_TASK_ID": "5", "SLURM_RESTART_COUNT": "2"}
    here = Allocation.read(task | {"HARNESS_SUBMISSION": "ab", "HARNESS_SIGNAL_SECONDS": "90"})
    assert (here.job, here.number, here.restart, here.rank, here.nodes) == ("71_5", "71", 2, 1, 2)
    assert (here.cpus, here.gpus, here.submission, here.signal_seconds) == (8, 3, "ab", 90)
    assert Allocation.read(STEP).job == "71"


@pytest.mark.parametrize("gone", ["SLURM_JOB_ID", "SLURM_PROCID", "SLURMD_NODENAME"])
def test_outside_of_a_job_step_the_error_says_what_to_run_instead(gone):
    rest = {key: value for key, value in STEP.items() if key != gone}
    with pytest.raises(HarnessError, match=f"{gone}.*python -m harness.running.supervise RUN_DIR"):
        Allocation.read(rest)


def answering(monkeypatch, **addresses):
    def run(words, **more):
        if words[-1] not in addresses:
            raise command.Unavailable("scontrol: away")
        return f"NodeName={words[-1]} Arch=x86_64\n   NodeAddr={addresses[words[-1]]} NodeHostName=h Version=22.05.8\n"

    monkeypatch.setattr(command, "run", run)


def test_the_address_of_a_node_is_slurms_own(monkeypatch):
    answering(monkeypatch, n3="10.1.2.3", n4="127.0.1.4", n5="127.0.1.5")
    assert allocation.address("n3", ("n4",)) == "10.1.2.3"
    assert allocation.address("n4", ("n5",)) == "127.0.1.4", "logical nodes of one machine"


def test_a_node_without_a_resolvable_address_is_an_error(monkeypatch):
    answering(monkeypatch, n3="no-such-host.invalid")
    with pytest.raises(HarnessError, match=r"node n3: its address no-such-host\.invalid cannot be resolved"):
        allocation.address("n3")
