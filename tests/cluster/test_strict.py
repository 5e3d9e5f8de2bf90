"""A cluster that enforces: submit limits of a QOS, small arrays, requests that never start, memory by the kernel."""

from __future__ import annotations

import contextlib
import io

import pytest

from harness import cli
from harness.errors import HarnessError
from harness.slurm import backlog, limits, postmortem
from tests.cluster import config
from tests.cluster.lab import Lab, wait

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(strict_cluster, tmp_path_factory):
    for qos, *settings in (
        ("few", "MaxSubmitJobsPerUser=3", "GrpTRES=cpu=2"),
        ("small", "MaxTRESPerJob=cpu=1", "Flags=DenyOnLimit"),
    ):
        strict_cluster.run("sacctmgr", "--immediate", "add", "qos", qos, *settings)
    mine = ("qos=normal,few,small", "defaultqos=few")
    strict_cluster.run("sacctmgr", "--immediate", "modify", "user", "root", "set", *mine)
    with strict_cluster.here():
        wait(lambda: any(bound.most == 3 for bound in limits.ask("root", None, None, None).bounds), 30)
    return Lab(tmp_path_factory.mktemp("store"), strict_cluster)


def status(lab, monkeypatch):
    monkeypatch.setenv("HARNESS_RUNS", str(lab.store.root))
    with lab.cluster.here(), contextlib.redirect_stdout(io.StringIO()) as out:
        cli.main(["status"])
    return out.getvalue()


def test_a_qos_that_is_never_asked_for_keeps_runs_back_and_the_jobs_that_end_submit_them(lab, monkeypatch):
    runs = [lab.run(steps=8, wishes={"step_seconds": 0.5}) for _ in range(5)]
    jobs = lab.submit(*runs)
    assert len(jobs) == 3
    assert len({job.partition("_")[0] for job in jobs.values()}) == 2, "arrays of two at most"
    assert backlog.waiting(lab.store.root) == {*runs} - jobs.keys()
    told = wait(
        lambda: text if "QOSGrpCpuLimit" in (text := status(lab, monkeypatch)) else "", 30, lambda: lab.trouble(runs[0])
    )
    assert "2 running, 3 queued" in told
    wait(lambda: all(map(lab.done, runs)), 120, lambda: "".join(map(lab.trouble, runs)))
    assert backlog.waiting(lab.store.root) == set()
    for run in runs:
        assert [step for _, step in lab.steps(run)] == list(range(1, 9)), "trained once"


def test_what_the_qos_never_takes_is_refused_in_slurms_words(lab):
    run = lab.run(cpus=2, qos="small")
    with pytest.raises(HarnessError, match="QOSMaxCpuPerJobLimit"):
        lab.submit(run)
    assert run not in backlog.waiting(lab.store.root)


kernel = pytest.mark.skipif(bool(config.no_cgroups()), reason=config.no_cgroups())


@kernel
def test_the_kernel_kills_what_needs_more_memory_than_was_asked_for(lab):
    run = lab.run(steps=40, wishes={"step_seconds": 0.2, "eat": 150}, qos="normal")
    job = lab.submit(run)[run]
    wait(lambda: lab.squeue(job) in ("", "FAILED", "OUT_OF_MEMORY"), 90, lambda: lab.trouble(run))
    with lab.cluster.here():
        wait(lambda: postmortem.complete(lab.store, run) or "cause" in lab.store.attempts(run)[0], 30)
    (record,) = lab.store.attempts(run)
    assert (record["cause"], lab.events(run, "requeued")) == ("out of host memory", [])
    assert "the kernel killed a process of the job on node" in record["reason"]
    assert record["reason"].endswith("ask for more: cluster.memory_gb")
    asked = ("sacct", "-n", "-P", "-j", job, "--format=JobID,State")
    wait(lambda: f"{job}.0|OUT_OF_MEMORY" in lab.cluster.run(*asked).splitlines(), 30)
    assert not lab.marked(run)


@kernel
def test_a_job_that_the_kernel_kills_before_its_first_record_is_told_in_slurms_words(lab):
    greedy = "x=[bytearray(1<<27) for _ in range(40)]"
    run = lab.run(qos="normal", setup=[f"srun() {{ command srun python3 -c '{greedy}'; }}"])
    job = lab.submit(run)[run]
    wait(lambda: lab.squeue(job) in ("", "FAILED", "OUT_OF_MEMORY"), 90)
    with lab.cluster.here():
        from harness.slurm import live

        reason = live.overview(lab.store, [run])[run].state.reason
    assert "oom" in reason.lower() or "Out Of Memory" in reason, reason
