from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time

import pytest

from harness import files
from harness.store import claim

HOLD = (
    "import sys, time; from pathlib import Path; from harness.store import claim\n"
    "claim.take(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


def hold(folder):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_claim_keeps_others_out_and_dies_with_its_owner(tmp_path):
    other = hold(tmp_path)
    try:
        with pytest.raises(claim.Claimed, match=f"in use by process {other.pid} on"):
            claim.take(tmp_path)
        claim.release(tmp_path)
        assert claim.owner(tmp_path).pid == other.pid, "another's claim is not ours to give back"
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert claim.owner(tmp_path) is None
    with claim.claimed(tmp_path):
        assert claim.owner(tmp_path).pid == claim.here().pid
    assert claim.owner(tmp_path) is None


def test_a_reused_pid_is_not_the_owner(tmp_path):
    me = claim.here()
    fields = {"host": me.host, "boot": me.boot, "pid": me.pid, "started": me.started - 1, "time": time.time()}
    files.write_json(tmp_path / "claim.json", fields)
    assert claim.owner(tmp_path) is None


def test_another_hosts_claim_lives_while_it_is_renewed(tmp_path):
    fields = {"host": "node7", "boot": "b", "pid": 1, "started": 1, "time": time.time()}
    files.write_json(tmp_path / "claim.json", fields)
    assert str(claim.owner(tmp_path)) == "process 1 on node7"
    files.write_json(tmp_path / "claim.json", fields | {"time": time.time() - claim.STALE_SECONDS - 1})
    assert claim.owner(tmp_path) is None


def test_a_damaged_claim_is_none(tmp_path):
    (tmp_path / "claim.json").write_text("{")
    assert claim.owner(tmp_path) is None
    claim.take(tmp_path)


@pytest.mark.slow
def test_of_many_that_try_at_once_one_wins(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from harness.store import claim\n"
        "try:\n    claim.take(Path(sys.argv[1])); print('won', flush=True); time.sleep(1.5)\n"
        "except claim.Claimed:\n    print('lost', flush=True)"
    )
    crowd = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(8)]
    words = [process.communicate()[0].decode().strip() for process in crowd]
    assert sorted(words) == ["lost"] * 7 + ["won"]


def as_job(monkeypatch, number, restart):
    monkeypatch.setenv("SLURM_JOB_ID", str(number))
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "big")
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(restart))


def elsewhere(folder, job, restart, age=0.0):
    fields = {"host": "node7", "boot": "b", "pid": 1, "started": 1, "time": time.time() - age}
    files.write_json(folder / "claim.json", fields | {"job": job, "restart": restart})


def test_a_job_that_was_queued_again_takes_over_from_its_earlier_attempt(tmp_path, monkeypatch):
    as_job(monkeypatch, 7, 1)
    elsewhere(tmp_path, "7@big", 0)
    assert claim.take(tmp_path) == claim.FENCE_SECONDS, "it may still be running on a node that SLURM has lost"
    assert claim.owner(tmp_path).job == "7@big"
    elsewhere(tmp_path, "7@big", 0, age=claim.FENCE_SECONDS + 2 * claim.RENEW_SECONDS)
    assert claim.take(tmp_path) == 0
    assert claim.take(tmp_path) == 0, "a renewal"


@pytest.mark.parametrize("job, restart", [("7@big", 1), ("7@big", 2), ("7@other", 0), ("8@big", 0), ("", 0)])
def test_any_other_job_is_kept_out(tmp_path, monkeypatch, job, restart):
    as_job(monkeypatch, 7, 1)
    elsewhere(tmp_path, job, restart)
    with pytest.raises(claim.Claimed, match="in use by process 1 on node7"):
        claim.take(tmp_path, gone="9@big")
    if job:
        assert claim.take(tmp_path, gone=job) == 0, "SLURM says that this job has ended"


def test_the_earlier_attempt_notices(tmp_path, monkeypatch):
    claim.take(tmp_path)
    claim.check(tmp_path)
    elsewhere(tmp_path, "7@big", 1)
    with pytest.raises(claim.Claimed, match="taken over by process 1 on node7, job 7"):
        claim.check(tmp_path)
    claim.release(tmp_path)
    assert claim.owner(tmp_path).host == "node7"


@pytest.mark.parametrize("field, value", [("time", "x"), ("pid", "1"), ("host", 3), ("started", None)])
def test_a_claim_with_values_of_other_kinds_is_none(tmp_path, field, value):
    mine = dataclasses.asdict(claim.here()) | {"host": "elsewhere"}
    files.write_json(tmp_path / "claim.json", mine)
    assert claim.owner(tmp_path) is not None
    files.write_json(tmp_path / "claim.json", mine | {field: value})
    assert claim.owner(tmp_path) is None
    claim.check(tmp_path)


def test_a_claim_of_another_host_whose_clock_was_ahead_names_the_way_out(tmp_path):
    ahead = dataclasses.asdict(claim.here()) | {"host": "elsewhere", "time": time.time() + 1e8}
    files.write_json(tmp_path / "claim.json", ahead)
    with pytest.raises(claim.Claimed, match=r"on elsewhere: .*gone for good\? remove .*claim\.json"):
        claim.take(tmp_path)
    (tmp_path / "claim.json").unlink()
    assert claim.take(tmp_path) == 0.0
    claim.release(tmp_path)
