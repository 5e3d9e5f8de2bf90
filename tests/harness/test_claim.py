from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from harness import claim, files

HOLD = (
    "import sys, time; from pathlib import Path; from harness import claim\n"
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


def test_of_many_that_try_at_once_one_wins(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from harness import claim\n"
        "try:\n    claim.take(Path(sys.argv[1])); print('won', flush=True); time.sleep(1.5)\n"
        "except claim.Claimed:\n    print('lost', flush=True)"
    )
    crowd = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(8)]
    words = [process.communicate()[0].decode().strip() for process in crowd]
    assert sorted(words) == ["lost"] * 7 + ["won"]
