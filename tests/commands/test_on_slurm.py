from __future__ import annotations

import getpass

import pytest

from harness import cli, files
from harness.slurm import live, submission
from tests.slurm.test_submit import STUDY, ids

pytestmark = pytest.mark.slow  # many processes, files or figures


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    monkeypatch.setattr(live, "_SETTLE_SECONDS", 0.0)


@pytest.fixture
def queued(lab, slurm, capsys):
    lab.sweep(STUDY)
    lab.apply()
    capsys.readouterr()
    return ids(lab)


def attempt(lab, run, number=1, **fields):
    record = {"attempt": number, "started": "2030-01-01T00:00:00+00:00", "host": "node1", "pid": 1, **fields}
    files.write_json(lab.runs / run / "attempts" / f"{number:03d}" / "attempt.json", record)


def failed(lab, run, job, cause):
    end = {"ended": "2030-01-01T01:00:00+00:00", "outcome": "failed", "cause": cause, "reason": f"{cause}: it said so"}
    attempt(lab, run, job=job, restart=0, **end)


def test_status_shows_why_jobs_wait_and_what_runs(lab, slurm, queued, capsys):
    slurm.set("1000_0", "RUNNING", node="node1")
    slurm.set("1000_1", "PENDING", reason="QOSMaxGRESPerUser")
    slurm.set("1000_2", "forgotten")
    slurm.forget_calls()
    assert cli.main(["status", "study"]) == 0
    out = capsys.readouterr().out
    assert "study: 1 running, 1 queued, 1 unknown" in out
    assert "QOSMaxGRESPerUser" in out
    assert f"{queued[2]}  QAE K=0.8, tiny, seed 1: job 1000_2: neither squeue nor accounting knows it" in out
    assert len(slurm.calls("squeue")) == 1
    assert len(slurm.calls("sacct")) == 1


def test_status_of_a_store_without_jobs_asks_nobody(lab, slurm, capsys):
    lab.sweep(STUDY.replace("cluster=auto", "cluster=local, cluster.fork_server=false"))
    assert lab.apply() == 0
    slurm.forget_calls()
    assert cli.main(["status"]) == 0
    assert "3 done" in capsys.readouterr().out
    assert slurm.calls("squeue") == []


def test_cancel_by_filter_takes_only_what_is_named(lab, slurm, queued, capsys):
    assert cli.main(["cancel", "k=0.8"]) == 0
    assert "QAE K=0.8, tiny, seed 1: cancelled (job 1000_2)" in capsys.readouterr().out
    assert [slurm.jobs[f"1000_{i}"]["state"] for i in range(3)] == ["PENDING", "PENDING", "CANCELLED"]
    assert (lab.plan()[2].action, lab.plan()[2].reason) == ("retry", f"cancelled by {getpass.getuser()}")
    assert files.read_json_lines(lab.runs / queued[2] / "events.jsonl")[0][-1]["event"] == "cancelled"


def test_cancel_of_a_sweep_and_then_nothing_is_left(lab, slurm, queued, capsys):
    assert cli.main(["cancel", "study"]) == 0
    assert {job["state"] for job in slurm.jobs.values()} == {"CANCELLED"}
    assert cli.main(["cancel", "study"]) == 0
    assert "nothing to cancel" in capsys.readouterr().out


def test_retry_takes_the_class_that_was_asked_for(lab, slurm, queued, capsys):
    failed(lab, queued[0], "1000_0", "out of GPU memory")
    failed(lab, queued[1], "1000_1", "NCCL")
    for i in (0, 1):
        slurm.leave_queue(f"1000_{i}", "FAILED", exit="1:0")
    assert cli.main(["retry", "study", "--class", "oom"]) == 0
    assert sorted(slurm.jobs)[3:] == ["1001_0"]
    assert submission.read(lab.runs, submission.current(lab.runs / queued[0]).submission).array == "1001"
    assert [e.state.kind for e in lab.plan()] == ["queued", "failed", "queued"]
    points = files.read_json(lab.store.sweep_file("study"))["points"]
    assert [point["id"] for point in points] == queued  # the sweep still consists of all its points
    assert cli.main(["retry", "study", "--class", "oom"]) == 0
    assert "nothing to retry" in capsys.readouterr().out


def test_an_unknown_run_is_submitted_again_only_when_asked_for(lab, slurm, queued):
    slurm.set("1000_2", "forgotten")
    lab.apply()
    assert len(slurm.jobs) == 3
    old = submission.current(lab.runs / queued[2]).submission
    assert cli.main(["retry", queued[2]]) == 0
    assert sorted(slurm.jobs)[3:] == ["1001_0"]
    assert submission.current(lab.runs / queued[2]).submission != old  # the old job, should it turn up, ends at once


def test_a_class_that_is_none_is_named(queued, capsys):
    assert cli.main(["retry", "study", "--class", "oon"]) == 2
    assert "error: --class oon: did you mean oom" in capsys.readouterr().err


def test_prune_cancels_what_left_the_grid_only_when_told(lab, slurm, queued, capsys):
    lab.sweep(STUDY.replace("[0.2, 0.8]", "[0.2]"))
    lab.apply()
    out = capsys.readouterr().out
    assert "1 run is no longer in the grid but queued or running; --prune cancels that:" in out
    assert queued[2] in out
    assert slurm.jobs["1000_2"]["state"] == "PENDING"
    lab.apply()  # it is offered until it is pruned or has ended
    assert queued[2] in capsys.readouterr().out
    from harness.running import apply

    apply.apply("study", report=False, prune=True)
    assert slurm.jobs["1000_2"]["state"] == "CANCELLED"
    capsys.readouterr()
    lab.apply()
    assert queued[2] not in capsys.readouterr().out


def test_prune_when_told(lab, slurm, queued, monkeypatch):
    from harness.running import apply

    lab.sweep(STUDY.replace("[0.2, 0.8]", "[0.2]"))
    assert apply.apply("study", report=False, prune=True) == 0
    assert [slurm.jobs[f"1000_{i}"]["state"] for i in range(3)] == ["PENDING", "PENDING", "CANCELLED"]


def test_a_run_that_another_sweep_asks_for_is_not_pruned(lab, slurm, queued):
    from harness.running import apply

    lab.sweep(STUDY, name="other")
    lab.apply("other")
    lab.sweep(STUDY.replace("[0.2, 0.8]", "[0.2]"))
    apply.apply("study", report=False, prune=True)
    assert slurm.jobs["1000_2"]["state"] == "PENDING"


def test_cancel_needs_no_answer_of_squeue(slurm, queued, capsys):
    slurm.wish(outage="squeue")
    assert cli.main(["cancel", "study"]) == 0
    assert "cancelled (job 1000_0)" in capsys.readouterr().out
    assert {job["state"] for job in slurm.jobs.values()} == {"CANCELLED"}


def test_a_waiting_array_that_was_cancelled_as_a_whole_is_one_row_of_squeue(lab, slurm, queued):
    name = slurm.jobs["1000_0"]["name"]
    row = f"1000|1000|N/A|CANCELLED|None|0:00|1:00||{name}|root|normal|team|gpu"
    attempt(lab, queued[1], job="1000_1", restart=0)  # it had begun: the row is not about it
    slurm.leave_queue("1000_1", "NODE_FAIL")
    slurm.wish(squeue=row)
    first, second, third = lab.plan()
    assert first.reason == "job 1000_0 was cancelled at step 0 of 6"
    assert second.reason.startswith("failed: job 1000_1 ended as NODE_FAIL")
    assert third.state.kind == "stopped"


@pytest.mark.parametrize("answer", ["<html>|</html>", "slurm_load_jobs: nothing"])
def test_what_is_no_table_is_no_answer_of_squeue(lab, slurm, queued, capsys, answer):
    slurm.wish(squeue=answer)
    slurm.set("1000_0", "forgotten")
    assert {e.state.kind for e in lab.plan()} == {"unknown"}
    assert f"squeue answered {answer!r}, no table" in lab.plan()[0].reason
    assert cli.main(["retry", queued[0]]) == 2  # it may be in the queue all the same
    assert "what is unknown is submitted again only where squeue answers" in capsys.readouterr().err
    assert len(slurm.jobs) == 3


def test_a_job_that_squeue_hides_and_accounting_knows_is_unknown(lab, slurm, queued):
    for job in ("1000_0", "1000_1", "1000_2"):
        slurm.set(job, "PENDING", left_queue=True)
    assert lab.plan()[0].reason.startswith("unknown: job 1000_0: squeue does not list it, accounting says PENDING")


def test_a_job_that_left_no_record_is_told_in_its_last_words(lab, slurm, queued):
    key = submission.current(lab.runs / queued[0]).submission
    log = submission.folder(lab.runs, key) / "logs" / "1000_0.batch.log"
    log.write_text("/spool/slurm_script: line 25: cd: /x/_snapshots/1: No such file or directory\nbye\n")
    slurm.leave_queue("1000_0", "FAILED", exit="2:0")
    assert lab.plan()[0].reason == (
        "failed: job 1000_0 ended as FAILED 2:0 without a record (cd: /x/_snapshots/1: "
        f"No such file or directory); see {log.parent}"
    )


@pytest.mark.parametrize(
    "reason, remedy",
    [
        ("JobHeldUser", "`scontrol release 1000_0` lets it go"),
        ("job requeued in held state", "`scontrol release 1000_0` lets it go"),
        ("PartitionTimeLimit", "smaller cluster.time_limit"),
        ("QOSMaxCpuPerJobLimit", "it never starts as it is"),
        ("Priority", ""),
        ("QOSMaxJobsPerUserLimit", ""),
    ],
)
def test_status_says_what_to_do_about_a_job_that_will_not_start(lab, slurm, queued, capsys, reason, remedy):
    slurm.set("1000_0", "PENDING", reason=reason)
    assert cli.main(["status", "study"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if ": queued, " in line]
    assert [remedy in line for line in lines] == ([True] if remedy else [])


def test_many_runs_of_one_reason_are_one_line(lab, slurm, capsys):
    lab.sweep(STUDY.replace("seeds: [1]", "seeds: [1, 2]"))
    lab.apply()
    slurm.wish(outage="squeue")
    capsys.readouterr()
    assert cli.main(["status", "study"]) == 0
    *_, table, last = capsys.readouterr().out.splitlines()
    assert table.startswith(lab.plan()[5].id)
    assert last.startswith(f"6 runs such as {lab.plan()[0].id}: job 1000_0: squeue: Unable to contact slurm controller")


def test_logs_of_a_run_and_of_the_job_before_it(lab, slurm, queued, capsys):
    assert cli.main(["logs", queued[0]]) == 2
    assert "has no log yet: queued, job 1000_0 waits: Priority" in capsys.readouterr().err
    key = submission.current(lab.runs / queued[0]).submission
    (submission.folder(lab.runs, key) / "logs" / "1000_0.0.0.log").write_text("module: command not found\n")
    assert cli.main(["logs", queued[0]]) == 0
    assert "module: command not found" in capsys.readouterr().out
    attempt(lab, queued[0])
    (lab.runs / queued[0] / "attempts" / "001" / "stdout.log").write_text("".join(f"line {i}\n" for i in range(9)))
    assert cli.main(["logs", queued[0], "-n", "2"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("line 7\nline 8\n")
    assert "line 6" not in out


def test_following_a_log_goes_over_to_the_next_attempt_and_ends_with_the_run(lab, slurm, queued, capsys, monkeypatch):
    from harness.commands import logs

    run = queued[0]
    attempt(lab, run)
    log = lab.runs / run / "attempts" / "001" / "stdout.log"
    log.write_text("first\n")

    def later(_):
        if not (lab.runs / run / "attempts" / "002").exists():
            attempt(lab, run, 2)
            (lab.runs / run / "attempts" / "002" / "stdout.log").write_text("second\n")
        else:
            files.write_json(lab.runs / run / "done.json", {"step": 6})

    monkeypatch.setattr(logs.time, "sleep", later)
    assert cli.main(["logs", run, "-f"]) == 0
    out = capsys.readouterr().out
    assert out.index("first") < out.index("002/stdout.log") < out.index("second")


@pytest.mark.parametrize(
    "words, message",
    [
        (["nosuch"], "is no applied sweep, no run id and no filter such as k=0.4,seed=2; did you mean|study"),
        (["0123456789"], "none in"),
        (["study", "baseline.Q=3"], "baseline.Q"),
        (["study", "state=fialed"], "state=fialed: did you mean failed"),
        (["study", "k=0.9"], "they have 0.2, 0.8"),
    ],
)
def test_words_that_name_nothing_are_told(queued, capsys, words, message):
    import re

    assert cli.main(["status", *words]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_filters_narrow_and_names_add_up(lab, queued):
    from harness.commands import targets

    store = lab.store
    assert targets.runs(store, []) == sorted(queued)
    assert targets.runs(store, [queued[0][:6], queued[2]]) == [queued[0], queued[2]]
    assert targets.runs(store, ["study", "baseline=qae,seed=1"]) == queued[1:]
    assert targets.runs(store, ["study", "K=0.2|0.8", "K>0.5"]) == [queued[2]]
    assert targets.runs(store, ["study", "state=queued,k=0.2"]) == [queued[1]]
