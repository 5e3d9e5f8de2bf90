from __future__ import annotations

import pytest

from harness import files
from harness.slurm import accounting, command, postmortem, submission
from harness.store import claim
from harness.store.runs import Store

RUN = "0123456789"


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    files.write_json(tmp_path / RUN / "heartbeat.json", {"step": 7})
    return store


def attempt(store, number=1, **record):
    path = store.folder(RUN) / "attempts" / f"{number:03d}" / "attempt.json"
    files.write_json(path, {"attempt": number, "job": "71_5", "restart": number - 1, "submission": "ab", **record})


def accounts(monkeypatch, *states):
    def attempts(arrays):
        if not states:
            raise command.Unavailable("sacct: accounting is off")
        return [
            accounting.Attempt(
                job="71_5", name="x", state=state, exit_code=code, seconds=1, gpus=0, cpus=1, nodes="n1", reason=""
            )
            for state, code in states
        ]

    monkeypatch.setattr(accounting, "attempts", attempts)


def record(store, number=1):
    return store.attempts(RUN)[number - 1]


def test_accountings_word_on_the_same_restart_completes_a_record(store, monkeypatch):
    accounts(monkeypatch, ("NODE_FAIL", "0:0"), ("RUNNING", "0:0"))
    attempt(store, 1)
    attempt(store, 2)
    assert postmortem.complete(store, RUN) == ["node failure"]
    assert (record(store)["outcome"], record(store)["cause"], record(store)["step"]) == ("lost", "node failure", 7)
    assert "ended" not in record(store, 2), "it may still be running"
    assert postmortem.complete(store, RUN) == []


def test_slurmstepds_word_does_where_accounting_is_off(store, monkeypatch):
    accounts(monkeypatch)
    attempt(store)
    assert postmortem.complete(store, RUN) == []
    log = submission.folder(store.root, "ab") / "logs" / "71_5.0.0.log"
    log.parent.mkdir(parents=True)
    log.write_text("slurmstepd: error: StepId=71.0 exceeded memory limit (9 > 5), being killed\n")
    assert postmortem.complete(store, RUN) == ["out of host memory"]


def test_a_run_that_somebody_works_on_is_left_alone(store, monkeypatch):
    accounts(monkeypatch, ("FAILED", "0:9"))
    attempt(store)
    with claim.claimed(store.folder(RUN)):
        assert postmortem.complete(store, RUN) == []
    assert postmortem.complete(store, RUN) == ["killed"]
