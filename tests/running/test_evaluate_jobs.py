"""`harness eval` where runs are SLURM's: what is submitted, what waits for what, and what is kept meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, files
from harness.commands import gc
from harness.running import evaluations
from harness.running.job import lead as job
from harness.running.job.handover import after
from harness.slurm import live, submission
from harness.store import retention
from harness.trainer import checkpoints
from tests.slurm.test_submit import ids
from tests.support import fake_trainer

pytestmark = pytest.mark.slow  # many processes, files or figures

STUDY = """
overrides: [cluster=auto, steps=6, save_every=2, evaluation.every=6, evaluation.samples=4, 'evaluation.k=[1]', model.resources.cpus=3]
grid:
  - baseline: mean
  - {baseline: qae, baseline.K: [0.2, 0.8]}
seeds: [1]
"""


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    monkeypatch.setattr(live, "_SETTLE_SECONDS", 0.0)


@pytest.fixture
def runs(lab, slurm, capsys):
    lab.sweep(STUDY)
    lab.apply()
    capsys.readouterr()
    return ids(lab)


def saved(lab, run, *steps):
    for step in steps:
        fake_trainer.save(lab.runs / run / "checkpoints", step, 0)


def done(lab, slurm, run, number):
    """The run's job ended well."""
    saved(lab, run, 4, 6)
    fake_trainer.evaluated(lab.runs / run, 6, 4)
    files.write_json(lab.runs / run / "done.json", {"step": 6, "total": 6})
    slurm.leave_queue(f"1000_{number}", "COMPLETED")


def evaluate(*words):
    return cli.main(["eval", *map(str, words)])


def asked(slurm, job):
    return slurm.jobs[job]["asked"]


def test_a_done_run_is_evaluated_by_a_job_with_its_resources_and_todays_code(lab, slurm, runs, capsys):
    done(lab, slurm, runs[0], 0)
    assert evaluate(runs[0], "--n", 8, "--seeds", 2, "--time-limit", "0:30:00") == 0
    out = capsys.readouterr().out
    assert f"evaluation of {runs[0]} at step 6: job 1001_0\n" in out
    assert f"harness logs {runs[0]} --eval" in out
    flags = asked(slurm, "1001_0")
    assert (flags["cpus-per-task"], flags["time"], flags["job-name"].strip("'")[:5]) == ("3", "30", "eval-")
    assert "dependency" not in flags
    text = Path(slurm.jobs["1001_0"]["script"]).read_text()
    assert "pkl" not in text
    assert "harness.running.job.lead" in text
    name = evaluations.name(runs[0], 6)
    listed = Path(slurm.jobs["1001_0"]["script"]).with_name("runs.txt")
    assert listed.read_text().split() == [str(lab.runs / name)]
    spec = lab.store.spec(name)
    assert spec["provenance"]["snapshot"] in text
    assert spec["evaluates"] == {"step": 6, "samples": 16, "n": 8, "after": ""}


def test_a_queued_run_is_evaluated_when_its_job_has_ended(lab, slurm, runs, capsys):
    slurm.set("1000_1", "RUNNING", node="node1")
    assert evaluate(runs[1]) == 0
    assert f"evaluation of {runs[1]} at step 6: job 1001_0, when job 1000_1 has ended" in capsys.readouterr().out
    flags = asked(slurm, "1001_0")
    assert (flags["dependency"], flags["kill-on-invalid-dep"]) == ("afterany:1000_1", "yes")


def test_asked_twice_it_is_submitted_once(lab, slurm, runs, capsys):
    slurm.set("1000_0", "RUNNING", node="node1")
    assert evaluate(runs[0], "--seeds", 2) == 0
    assert evaluate(runs[0], "--seeds", 2) == 0
    assert evaluate(runs[0]) == 0, "fewer samples are among them"
    assert capsys.readouterr().out.count("left alone: queued: job 1001_0 waits") == 2
    assert len(slurm.calls("sbatch")) == 2
    assert evaluate(runs[0], "--seeds", 4) == 2
    assert "to be evaluated with 64 samples, not 128: wait for it" in capsys.readouterr().err


def test_killed_between_sbatch_and_its_answer_it_is_found_again(lab, slurm, runs, capsys):
    import os

    done(lab, slurm, runs[0], 0)
    slurm.wish(kill_submitter=True)
    if not (child := os.fork()):
        os._exit(evaluate(runs[0]))
    assert os.waitpid(child, 0)[1] == 9
    slurm.wish(kill_submitter=False)
    assert evaluate(runs[0]) == 0
    assert "left alone: queued: job 1001_0" in capsys.readouterr().out
    assert sorted(slurm.jobs)[3:] == ["1001_0"]


def test_several_runs_share_an_array_where_nothing_keeps_them_apart(lab, slurm, runs, capsys):
    done(lab, slurm, runs[0], 0)
    done(lab, slurm, runs[1], 1)
    slurm.set("1000_2", "RUNNING", node="node1")
    assert evaluate("study") == 0
    assert sorted(slurm.jobs)[3:] == ["1001_0", "1001_1", "1002_0"]
    assert asked(slurm, "1002_0")["dependency"] == "afterany:1000_2"
    assert evaluate("study", "k=0.2") == 0
    assert "left alone: queued" in capsys.readouterr().out


def test_what_is_there_needs_no_job(lab, slurm, runs, capsys):
    done(lab, slurm, runs[0], 0)
    assert evaluate(runs[0], "--n", 2, "--seeds", 2) == 0
    assert "left alone: it is there: sums: pass@1 50.00 over 2 problems, 4 samples each" in capsys.readouterr().out
    assert len(slurm.calls("sbatch")) == 1


@pytest.mark.parametrize(
    "words, why",
    [
        (["--step", "3"], "has not the checkpoint of step 3 (there: 4, 6)"),
        (["--time-limit", "0:02:00"], "--time-limit=0:02:00: more than cluster.signal_seconds=180"),
        (["--time-limit", "soon"], "write hours as '4:00:00'"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(lab, slurm, runs, capsys, words, why):
    done(lab, slurm, runs[0], 0)
    assert evaluate(runs[0], *words) == 2
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == 1
    assert evaluations.every(lab.store, runs) == []


def test_a_refusal_leaves_nothing_behind(lab, slurm, runs, capsys):
    done(lab, slurm, runs[0], 0)
    slurm.wish(refuse="Invalid account")
    assert evaluate(runs[0]) == 2
    assert "Invalid account" in capsys.readouterr().err
    assert retention.wanted(lab.runs / runs[0]) == set()
    assert evaluations.unfinished(lab.store, runs) == []
    slurm.wish(refuse="")
    assert evaluate(runs[0]) == 0


def test_beyond_a_submit_limit_jobs_that_end_submit_it(lab, slurm, runs, capsys):
    slurm.set("1000_0", "RUNNING", node="node1")
    slurm.wish(most=3)
    assert evaluate(runs[0]) == 0
    assert "waits beyond a submit limit of the cluster" in capsys.readouterr().out
    done(lab, slurm, runs[0], 0)
    after(lab.runs / runs[0])
    assert asked(slurm, "1001_0")["dependency"] == "afterany:1000_0"
    assert live.overview(lab.store, [evaluations.name(runs[0], 6)]).popitem()[1].state.kind == "queued"


def test_status_logs_and_cancel_know_it(lab, slurm, runs, capsys):
    slurm.set("1000_0", "RUNNING", node="node1")
    evaluate(runs[0])
    slurm.set("1001_0", "PENDING", reason="Dependency")
    capsys.readouterr()
    slurm.forget_calls()
    assert cli.main(["status", "study"]) == 0
    assert f"evaluation of {runs[0]} at step 6: queued, job 1001_0 waits: Dependency" in capsys.readouterr().out
    assert len(slurm.calls("squeue")) == 1
    assert cli.main(["logs", runs[0], "--eval"]) == 2
    assert "has no log yet: queued, job 1001_0 waits: Dependency" in capsys.readouterr().err
    log = Path(slurm.jobs["1001_0"]["script"]).parent / "logs" / "1001_0.0.0.log"
    log.write_text("nothing was evaluated: because\n")
    assert cli.main(["logs", runs[0], "--eval", "6"]) == 0
    assert "nothing was evaluated: because" in capsys.readouterr().out
    assert cli.main(["logs", runs[0], "--eval", "4"]) == 2
    assert "has no evaluation of step 4 (there: 6)" in capsys.readouterr().err
    assert cli.main(["cancel", runs[0], "--eval"]) == 0
    assert capsys.readouterr().out == f"evaluation of {runs[0]} at step 6: cancelled (job 1001_0)\n"
    assert (slurm.jobs["1001_0"]["state"], slurm.jobs["1000_0"]["state"]) == ("CANCELLED", "RUNNING")
    assert retention.wanted(lab.runs / runs[0]) == set()
    cli.main(["status", "study"])
    assert "evaluation of" not in capsys.readouterr().out


def test_a_cancelled_run_takes_its_evaluation_along(lab, slurm, runs, capsys):
    slurm.set("1000_0", "RUNNING", node="node1")
    evaluate(runs[0])
    assert cli.main(["cancel", runs[0]]) == 0
    assert [slurm.jobs[j]["state"] for j in ("1000_0", "1001_0", "1000_1")] == ["CANCELLED", "CANCELLED", "PENDING"]


def test_gc_keeps_checkpoint_code_and_records_of_what_is_queued(lab, slurm, runs, capsys):
    done(lab, slurm, runs[0], 0)
    for run in runs[1:]:
        files.write_json(lab.runs / run / "done.json", {"step": 6, "total": 6})
    found = gc.find(lab.store, runs)
    assert {w.kind for w in found} == {"checkpoints", "snapshots"}, "4 is beyond the policy, all runs are done"
    assert evaluate(runs[0], "--step", "4") == 0
    gone, kept = gc.remove(lab.store, [w for w in found if w.kind == "checkpoints"])
    assert gone == []
    assert list(kept.values()) == ["an evaluation needs it that was asked for a moment ago"]
    assert gc.find(lab.store, runs) == []
    left = [w.path.name for w in gc.find(lab.store, runs, finished=True)]
    assert left == ["global_step_6"]
    cli.main(["cancel", runs[0], "--eval"])
    assert {w.path.name for w in gc.find(lab.store, runs, finished=True) if w.kind == "checkpoints"} == {
        "global_step_4", "global_step_6",
    }  # fmt: skip


def in_job(monkeypatch, lab, slurm, number, **more):
    """Runs the payload of a job as its only task."""
    key = Path(slurm.jobs[number]["script"]).parent.name
    environment = {
        "SLURM_JOB_ID": "71", "SLURM_ARRAY_JOB_ID": number.split("_")[0], "SLURM_ARRAY_TASK_ID": number.split("_")[1],
        "SLURM_PROCID": "0", "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "node1", "SLURM_JOB_NODELIST": "node1",
        "HARNESS_SUBMISSION": key, **more,
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(job.Allocation, "names", lambda self: ["node1"])
    run = (submission.folder(lab.runs, key) / "runs.txt").read_text().split()[int(number.split("_")[1])]
    return job.main([run])


def test_the_job_evaluates_and_merges(lab, slurm, runs, monkeypatch, capsys):
    done(lab, slurm, runs[0], 0)
    evaluate(runs[0], "--n", 8, "--seeds", 2)
    slurm.set("1001_0", "RUNNING", node="node1")
    assert in_job(monkeypatch, lab, slurm, "1001_0") == 0
    import pyarrow.parquet as pq

    table = pq.read_table(lab.runs / runs[0] / "outcomes" / "eval" / "step_000006.parquet")
    assert table.num_rows == 32
    assert evaluations.unfinished(lab.store, runs) == []
    log = lab.runs / evaluations.name(runs[0], 6) / "attempts" / "001" / "stdout.log"
    assert "sums: pass@1 50.00 over 2 problems, 16 samples each, 2 evaluation seeds" in log.read_text()
    assert not list((lab.runs / evaluations.name(runs[0], 6)).glob("job/*"))


def test_a_job_whose_run_did_not_get_through_says_so_and_ends(lab, slurm, runs, monkeypatch, capsys):
    slurm.set("1000_0", "RUNNING", node="node1")
    evaluate(runs[0])
    slurm.set("1000_0", "FAILED")
    slurm.set("1001_0", "RUNNING", node="node1")
    capsys.readouterr()
    assert in_job(monkeypatch, lab, slurm, "1001_0") == 0
    assert f"nothing was evaluated: run {runs[0]} did not get done (new: never started)" in capsys.readouterr().out
    slurm.set("1001_0", "COMPLETED")
    assert retention.wanted(lab.runs / runs[0]) == set()
    cli.main(["status", runs[0]])
    assert "at step 6: stopped, nothing was evaluated" in capsys.readouterr().out
    saved(lab, runs[0], 4)
    slurm.leave_queue("1000_0", "FAILED")
    assert evaluate(runs[0]) == 0, "what it has saved can be evaluated"
    assert f"evaluation of {runs[0]} at step 4: job 1002_0\n" in capsys.readouterr().out


def test_a_job_that_was_taken_back_ends_at_once(lab, slurm, runs, monkeypatch, capsys):
    done(lab, slurm, runs[0], 0)
    evaluate(runs[0])
    cli.main(["cancel", runs[0], "--eval"])
    assert in_job(monkeypatch, lab, slurm, "1001_0") == 0
    assert "superseded" in capsys.readouterr().out
    assert lab.store.attempts(evaluations.name(runs[0], 6)) == []


def test_here_means_here(lab, slurm, runs, capsys):
    slurm.set("1000_0", "RUNNING", node="node1")
    assert evaluate(runs[0], "--here") == 2
    assert "has job 1000_0: without --here the evaluation waits for it as a job" in capsys.readouterr().err
    done(lab, slurm, runs[0], 0)
    assert evaluate(runs[0], "--here") == 0
    assert "sums: pass@1 50.00 over 2 problems, 32 samples each" in capsys.readouterr().out
    assert len(slurm.calls("sbatch")) == 1
    assert checkpoints.steps(lab.runs / runs[0] / "checkpoints") == [4, 6]
