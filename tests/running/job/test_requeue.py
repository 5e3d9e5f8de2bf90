from __future__ import annotations

import time

import pytest

from harness.running.job import requeue
from harness.running.job.allocation import Allocation
from harness.slurm import command

RUNNING = "JobId=71 ArrayJobId=71 ArrayTaskId=5\n   JobState=RUNNING Requeue=1 Restarts=1 TimeLimit=01:00:00\n"
MORE = "   PreemptEligibleTime=2026-11-30T13:29:48 PreemptTime=None ExcNodeList=n[8-9] Partition=gpu\n"


@pytest.fixture
def here():
    return Allocation(
        job="71_5", number="71", restart=1, rank=0, nodes=1, node="n1", node_list="n1", cpus=1, gpus=0, submission="",
        signal_seconds=60,
    )  # fmt: skip


@pytest.fixture
def scontrol(monkeypatch):
    """Answers and remembers; `answers` maps the second word to what scontrol says, or to an error."""
    asked = []
    answers = {
        "job": RUNNING + MORE,
        "partition": "PartitionName=gpu\n   TotalCPUs=8 TotalNodes=4\n",
        "hostnames": "n8\nn9\n",
    }

    def run(words, **more):
        asked.append(" ".join(words[1:]))
        answer = answers.get(words[2] if words[1] == "show" else words[1], "")
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return asked, answers


def test_the_fields_of_a_job():
    fields = requeue.fields(RUNNING + MORE)
    assert (fields["JobState"], fields["Restarts"], fields["ExcNodeList"], fields["PreemptTime"]) == (
        "RUNNING", "1", "n[8-9]", "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("job", "warned", "words", "outcome", "cause"),
    [
        ({"JobState": "RUNNING", "TimeLimit": "01:00:00"}, True, "", "stopped", "time limit"),
        ({"JobState": "RUNNING", "PreemptTime": "2026-11-30T13:29:48"}, True, "", "stopped", "preempted"),
        ({"JobState": "RUNNING", "PreemptTime": "2026-11-30T13:29:48"}, False, "", "stopped", "preempted"),
        ({"JobState": "CANCELLED"}, False, "", "stopped", "cancelled"),
        ({"JobState": "CANCELLED"}, True, "", "stopped", "cancelled"),
        ({"JobState": "COMPLETING"}, False, "*** STEP 7.0 ON n CANCELLED AT 2026 ***", "stopped", "cancelled"),
        ({"JobState": "RUNNING"}, False, "StepId=7.0 exceeded memory limit (2 > 1)", "failed", "out of host memory"),
        ({"JobState": "COMPLETING"}, False, "*** STEP 7.0 ON n CANCELLED AT 2026 DUE TO NODE FAILURE, SEE ***",
         "failed", "node failure"),
        ({"JobState": "RUNNING"}, False, "", "stopped", ""),
        ({}, True, "", "stopped", "time limit"),
    ],
)  # fmt: skip
def test_why_a_signal_came(job, warned, words, outcome, cause):
    ended = requeue.why(job, warned, words)
    assert (ended.outcome, ended.cause) == (outcome, cause)


def test_a_job_goes_back_under_its_own_name_and_away_from_the_bad_node(here, scontrol):
    noted = []
    assert requeue.requeue(here, ("n1",), noted.append)
    assert noted == [("n1",)]
    assert scontrol[0][-2:] == ["requeue 71_5", "update JobId=71_5 ExcNodeList=n1,n8,n9"]


def test_a_node_is_not_left_out_where_too_few_would_remain(here, scontrol):
    scontrol[1]["partition"] = "PartitionName=gpu TotalNodes=3\n"
    noted = []
    assert requeue.requeue(here, ("n1",), noted.append)
    assert noted == [()]
    assert scontrol[0][-1] == "requeue 71_5"


@pytest.mark.parametrize(
    "before, after",
    [("JobState=RUNNING", "JobState=CANCELLED"), ("Restarts=1", "Restarts=2"), ("Requeue=1", "Requeue=0")],
)
def test_a_job_that_was_cancelled_or_queued_again_meanwhile_is_left_alone(here, scontrol, before, after):
    scontrol[1]["job"] = (RUNNING + MORE).replace(before, after)
    noted = []
    assert not requeue.requeue(here, (), noted.append)
    assert noted == []
    assert scontrol[0] == ["show job 71_5"]


def test_a_controller_that_is_away_for_a_moment_is_waited_for(here, scontrol):
    away = command.Unavailable("scontrol: Unable to contact slurm controller")
    scontrol[1]["job"] = [away, away, RUNNING + MORE]
    assert requeue.requeue(here, (), lambda nodes: None)
    assert scontrol[0].count("show job 71_5") == 3
    assert scontrol[0][-1] == "requeue 71_5"
