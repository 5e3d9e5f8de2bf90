from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import cli, files
from harness.errors import HarnessError
from harness.slurm import backlog, command, limits, live, submission

pytestmark = pytest.mark.slow  # many processes, files or figures

STUDY = """
overrides: [cluster=auto, steps=6, save_every=2, evaluation.every=3]
grid:
  - baseline: mean
  - {baseline: qae, baseline.K: [0.2, 0.8]}
seeds: [1]
"""


def ids(lab):
    return [e.id for e in lab.plan()]


def script(slurm):
    return next(iter(slurm.jobs.values()))["script"]


def test_a_sweep_is_queued_as_one_array_and_the_command_ends(lab, slurm, capsys):
    lab.sweep(STUDY)
    assert lab.apply() == 0
    out = capsys.readouterr().out
    assert "3 runs queued as job array 1000" in out
    assert sorted(slurm.jobs) == ["1000_0", "1000_1", "1000_2"]
    for index, run in enumerate(ids(lab)):
        link = submission.current(lab.runs / run)
        record = submission.read(lab.runs, link.submission)
        assert (record.job(link.index), record.runs[index]) == (f"1000_{index}", run)
        event = files.read_json_lines(lab.runs / run / "events.jsonl")[0][-1]
        assert (event["event"], event["job"]) == ("submitted", f"1000_{index}")
    assert [(e.action, e.reason) for e in lab.plan()] == [
        ("keep", f"queued: job 1000_{i} waits: Priority") for i in range(3)
    ]


def test_applied_again_nothing_is_submitted_twice(lab, slurm, capsys):
    lab.sweep(STUDY)
    lab.apply()
    lab.apply()
    assert len(slurm.jobs) == 3
    assert len(slurm.calls("sbatch")) == 1
    assert "nothing to submit" in capsys.readouterr().out


def test_the_script_runs_the_path_of_a_frozen_run_from_the_snapshot(lab, slurm):
    lab.sweep(STUDY.replace("steps=6,", "steps=6, cluster.partition=gpu, 'cluster.setup=[\"module load x\"]', "
                            "'cluster.sbatch={reservation: team}', cluster.signal_seconds=99,"))  # fmt: skip
    lab.apply()
    text = Path(script(slurm)).read_text()
    for line in (
        "#SBATCH --array=0-2%3", "#SBATCH --partition=gpu", "#SBATCH --reservation=team", "#SBATCH --signal=USR2@99",
        "#SBATCH --requeue", "#SBATCH --ntasks-per-node=1", "#SBATCH --mem=6144M", "#SBATCH --time=1440",
        "module load x",
    ):  # fmt: skip
        assert line in text.splitlines(), text
    assert "pkl" not in text
    assert "wckey" not in text
    snapshot = lab.store.spec(ids(lab)[0])["provenance"]["snapshot"]
    assert f"export HARNESS_SNAPSHOT={snapshot}" in text
    runs = Path(text.split('sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" ')[1].split(")")[0]).read_text().split()
    assert runs == [str(lab.runs / run) for run in ids(lab)]
    assert os.path.exists(f"{snapshot}/harness/slurm/script.py")


def test_unequal_resources_are_separate_arrays(lab, slurm):
    lab.sweep(STUDY.replace("- baseline: mean", "- {baseline: mean, cluster.cpus: 4}"))
    lab.apply()
    assert sorted(slurm.jobs) == ["1000_0", "1001_0", "1001_1"]


def test_arrays_are_no_larger_than_the_cluster_takes(lab, slurm):
    slurm.configure(MaxArraySize="3")
    lab.sweep(STUDY)
    lab.apply()
    assert sorted(slurm.jobs) == ["1000_0", "1000_1", "1001_0"]


@pytest.mark.parametrize("known", [True, False])
def test_beyond_a_submit_limit_runs_wait_for_jobs_that_end(lab, slurm, capsys, known):
    from harness.running.job.handover import after

    slurm.wish(most=2, associations="team|team||2||normal\n" if known else "")
    slurm.configure(AccountingStorageEnforce="associations,limits,qos")
    lab.sweep(STUDY)
    assert lab.apply() == 0
    limit = "MaxSubmitJobs of account team" if known else "a submit limit of the cluster"
    assert f"1 run beyond {limit}: jobs that end will submit them" in capsys.readouterr().out
    runs = ids(lab)
    assert len(slurm.jobs) == 2
    assert backlog.waiting(lab.runs) == {runs[2]}
    assert lab.plan()[2].reason.startswith("queued: beyond a submit limit")
    lab.apply()  # asking again changes nothing while there is no room
    assert backlog.waiting(lab.runs) == {runs[2]}
    slurm.set(sorted(slurm.jobs)[0], "COMPLETED")
    (lab.runs / runs[0] / "done.json").write_text('{"step": 6}')
    after(lab.runs / runs[0])
    assert backlog.waiting(lab.runs) == set()
    assert len(slurm.jobs) == 3
    assert lab.plan()[2].reason.startswith("queued: job ")


GENERIC = (
    "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
)


@pytest.mark.parametrize(
    "words, expected",
    [
        (f"QOSMaxSubmitJobPerUserLimit; {GENERIC}", True),
        (f"AssocGrpSubmitJobsLimit; {GENERIC}", True),
        (f"QOSMaxCpuPerJobLimit; {GENERIC}", False),
        (f"QOSMaxWallDurationPerJobLimit; {GENERIC}", False),
        ("Batch job submission failed: Resource temporarily unavailable", True),
        ("Invalid account or account/partition combination specified", False),
        (GENERIC, None),
    ],
)
def test_only_a_submit_limit_is_worth_waiting_for(words, expected):
    assert limits.too_many(words) is expected


def test_a_job_that_a_qos_never_takes_is_refused_rather_than_kept(lab, slurm):
    slurm.wish(refuse=f"QOSMaxCpuPerJobLimit\nsbatch: error: {GENERIC}")
    lab.sweep(STUDY)
    with pytest.raises(HarnessError, match="QOSMaxCpuPerJobLimit"):
        lab.apply()
    slurm.wish(refuse=GENERIC)  # an older SLURM gives no reason: nothing of ours is queued, so no end would help
    with pytest.raises(HarnessError, match="policy"):
        lab.apply()
    assert backlog.waiting(lab.runs) == set()


@pytest.fixture
def enforced(slurm):
    slurm.configure(AccountingStorageEnforce="associations,limits,qos")
    slurm.wish(associations="team|team||||few\nteam|other||1||\n", qos="few|2||\n")
    return slurm


def test_the_limits_are_those_of_the_default_account_and_qos(enforced):
    found = limits.ask("me", None, None, None)
    assert [(b.most, b.source) for b in found.bounds[1:]] == [(2, "MaxSubmitJobsPerUser of QOS few")]
    assert found.place == ("few", "team", "gpu")
    assert limits.ask("me", "other", "high", None).bounds[1].source == "MaxSubmitJobs of account other"


def test_a_limit_counts_only_the_jobs_that_it_is_about(enforced):
    bounds = limits.ask("me", None, None, None)
    mine, others = limits.Place("few", "team", "gpu"), limits.Place("long", "team", "gpu")
    assert bounds.room([others] * 5) == (2, "MaxSubmitJobsPerUser of QOS few")
    assert bounds.room([others, mine]) == (1, "MaxSubmitJobsPerUser of QOS few")
    partition = limits.Bound(3, "", partition="gpu")
    assert partition.left([mine, limits.Place("", "", "debug,gpu"), limits.Place("", "", "debug")]) == 1


def test_a_partitions_own_qos_limits_its_jobs(enforced):
    enforced.wish(partitions="PartitionName=gpu State=UP Default=YES QoS=part", qos="few|9||\npart|4||\n")
    found = limits.ask("me", None, None, None)
    assert found.room([]) == (4, "MaxSubmitJobsPerUser of QOS part")
    assert next(b for b in found.bounds if b.most == 4).partition == "gpu"


def test_what_waits_beyond_a_limit_is_submitted_when_the_sweep_is_applied_again(lab, enforced, capsys):
    lab.sweep(STUDY)
    lab.apply()
    assert len(enforced.jobs) == 2
    (kept,) = backlog.waiting(lab.runs)
    assert lab.plan()[2].reason == "queued: beyond a submit limit: jobs that end will submit it"
    for job in enforced.jobs:
        enforced.leave_queue(job, "FAILED")
    assert "no job is left that could submit it: `harness sweep` again does" in lab.plan()[2].reason
    cli.main(["status", kept])
    assert f"{kept}  QAE K=0.8, tiny, seed 1: queued, beyond a submit limit: no job is left" in capsys.readouterr().out
    for run in ids(lab)[:2]:
        (lab.runs / run / "done.json").write_text('{"step": 6}')
    lab.sweep(STUDY.replace("steps=6,", "steps=6, cluster.partition=gpu,"))
    lab.apply()
    assert "#SBATCH --partition=gpu" in Path(enforced.jobs["1001_0"]["script"]).read_text()  # as it is asked for now
    assert backlog.waiting(lab.runs) == set()


def test_jobs_that_end_before_our_first_word_stop_the_rest_of_their_sweep(lab, slurm, monkeypatch):
    from harness.running.job.handover import after

    lab.sweep(STUDY.replace("seeds: [1]", "seeds: [1, 2]"))
    lab.apply()
    runs = ids(lab)
    monkeypatch.setenv("HARNESS_SUBMISSION", "another")  # the job was superseded: its end says nothing
    after(lab.runs / runs[0])
    monkeypatch.setenv("HARNESS_SUBMISSION", submission.current(lab.runs / runs[0]).submission)
    for index in range(3):
        assert {job["state"] for job in slurm.jobs.values()} <= {"PENDING", "FAILED", "RUNNING"}
        slurm.set(f"1000_{index}", "RUNNING", node="node1")
        after(lab.runs / runs[index])
        slurm.set(f"1000_{index}", "FAILED", exit="2:0")
    assert [slurm.jobs[f"1000_{i}"]["state"] for i in range(6)] == ["FAILED"] * 3 + ["CANCELLED"] * 3
    assert lab.plan()[5].reason.startswith("withheld: the first 3 runs of the sweep failed before the harness said a")
    text = Path(script(slurm)).read_text()
    assert text.count("-m harness.running.job.handover") == 2  # the second time with the Python that submitted


def test_where_no_job_can_submit_what_waits_that_is_said(lab, enforced, capsys):
    enforced.wish(qos="few|1||\n")  # the job that ends still counts
    lab.sweep(STUDY)
    lab.apply()
    told = "2 runs beyond MaxSubmitJobsPerUser of QOS few: no job can submit them later, `harness sweep` again does"
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    "more, text",
    [
        ("cluster.partition=debug, \"cluster.time_limit='2:00:00'\"", "partition debug ends jobs after 01:00:00"),
        (
            "cluster.partition=debug, \"cluster.time_limit='0:30:00'\", cluster.nodes=3",
            "partition debug gives a job 2 nodes at most",
        ),
        ("cluster.qos=short", "QOS short ends jobs after 00:30:00, cluster.time_limit is 24:00:00: set cluster.time"),
    ],
)
def test_what_would_wait_for_ever_is_refused_before_anything_is_frozen(lab, slurm, capsys, more, text):
    slurm.wish(
        partitions="PartitionName=gpu State=UP Default=YES MaxTime=UNLIMITED\nPartitionName=debug State=UP "
        "MaxTime=01:00:00 MaxNodes=2", longest="normal|\nshort|00:30:00\n",
    )  # fmt: skip
    lab.sweep(STUDY.replace("steps=6,", f"steps=6, {more},"))
    for verb in ("plan", "sweep"):
        assert cli.main([verb, "study"]) == 2
        assert f"error: no job would ever start: {text}" in capsys.readouterr().err
    assert list(lab.runs.glob("*/spec.json")) == []
    assert slurm.jobs == {}


def test_one_partition_of_several_is_enough(lab, slurm):
    slurm.wish(partitions="PartitionName=gpu MaxTime=UNLIMITED\nPartitionName=debug MaxTime=01:00:00")
    lab.sweep(STUDY.replace("steps=6,", "steps=6, \"cluster.partition='debug,gpu'\","))
    assert lab.apply() == 0
    assert len(slurm.jobs) == 3


def test_a_refusal_is_told_in_slurms_words_and_leaves_nothing_behind(lab, slurm):
    slurm.wish(refuse="invalid partition specified: gpux")
    lab.sweep(STUDY)
    with pytest.raises(HarnessError, match="invalid partition specified: gpux"):
        lab.apply()
    assert [e.action for e in lab.plan()] == ["add"] * 3
    assert submission.undecided(lab.runs) == []
    slurm.wish(refuse="")
    assert lab.apply() == 0
    assert len(slurm.jobs) == 3


def test_killed_between_sbatch_and_its_answer_nothing_is_twice_and_nothing_lost(lab, slurm):
    lab.sweep(STUDY)
    slurm.wish(kill_submitter=True)
    process = lab.start()
    output = process.communicate(timeout=120)[0]
    assert process.returncode == -9, output
    slurm.wish(kill_submitter=False)
    assert [e.state.kind for e in lab.plan()] == ["unknown"] * 3
    assert lab.apply() == 0
    assert sorted(slurm.jobs) == ["1000_0", "1000_1", "1000_2"]
    assert [e.state.kind for e in lab.plan()] == ["queued"] * 3


def test_killed_before_sbatch_the_next_one_submits(lab, slurm, monkeypatch):
    from harness.slurm import script as module
    from harness.slurm import submit

    def die(*_, **__):
        raise KeyboardInterrupt

    lab.sweep(STUDY)
    with monkeypatch.context() as patch:
        patch.setattr(module, "sbatch", die)
        with pytest.raises(KeyboardInterrupt):
            lab.apply()
    assert len(submission.undecided(lab.runs)) == 1
    monkeypatch.setattr(submit, "_SETTLE_SECONDS", 0.1)
    assert lab.apply() == 0
    assert submission.undecided(lab.runs) == []
    assert sorted(slurm.jobs) == ["1000_0", "1000_1", "1000_2"]


def test_two_at_once_submit_every_run_once(lab, slurm):
    lab.sweep(STUDY)
    both = [lab.start(), lab.start()]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(slurm.jobs) == 3
    assert len({submission.current(lab.runs / run).submission for run in ids(lab)}) == 1


def test_without_an_answer_of_squeue_nothing_is_submitted(lab, slurm):
    lab.sweep(STUDY)
    lab.apply()
    slurm.wish(outage=True)
    assert {e.state.kind for e in lab.plan()} == {"unknown"}
    assert "squeue: Unable to contact slurm controller" in lab.plan()[0].reason
    lab.apply()
    assert len(slurm.jobs) == 3
    slurm.wish(outage="sbatch")
    lab.sweep(STUDY.replace("0.8]", "0.8, 0.5]"))
    with pytest.raises(command.Unavailable):
        lab.apply()
    assert len(submission.undecided(lab.runs)) == 1


def test_a_job_that_left_squeue_is_told_by_accounting_or_unknown(lab, slurm, monkeypatch):
    monkeypatch.setattr(live, "_SETTLE_SECONDS", 0.0)
    lab.sweep(STUDY)
    lab.apply()
    slurm.leave_queue("1000_0", "CANCELLED")
    slurm.leave_queue("1000_1", "NODE_FAIL", exit="0:0")
    slurm.set("1000_2", "forgotten")
    first, second, third = lab.plan()
    assert (first.action, first.reason) == ("retry", "job 1000_0 was cancelled at step 0 of 6")
    assert second.action == "retry"
    assert second.reason.startswith("failed: job 1000_1 ended as NODE_FAIL without a record")
    assert third.action == "keep"
    assert "unknown: job 1000_2: neither squeue nor accounting knows it" in third.reason
    lab.apply()
    assert sorted(slurm.jobs)[3:] == ["1001_0", "1001_1"]


def test_one_squeue_call_and_no_sacct_while_all_is_live(lab, slurm):
    lab.sweep(STUDY)
    lab.apply()
    slurm.forget_calls()
    lab.plan()
    assert len(slurm.calls("squeue")) == 1
    assert slurm.calls("sacct") == []
