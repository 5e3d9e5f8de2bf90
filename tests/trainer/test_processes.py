from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.trainer import processes

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def start(tmp_path):
    started = []

    def run(folder: Path, code: str = SLEEP) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "HARNESS_ATTEMPT": str(folder)},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        process.stdout.readline()
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_processes_are_found_by_their_attempt(tmp_path, start):
    mine, other = start(tmp_path / "001"), start(tmp_path / "002")
    assert processes.marked(tmp_path / "001") == [mine.pid]
    assert processes.marked(tmp_path / "002") == [other.pid]
    assert processes.marked(tmp_path / "001", exclude=frozenset([mine.pid])) == []


def test_ending_an_attempt_leaves_the_others_alone(tmp_path, start):
    mine, other = start(tmp_path / "001"), start(tmp_path / "002")
    assert processes.end(tmp_path / "001", grace=5.0) == [mine.pid]
    assert mine.wait(timeout=5) == -15
    assert other.poll() is None


def test_a_process_that_ignores_the_request_is_killed(tmp_path, start):
    deaf = start(tmp_path / "001", DEAF)
    processes.end(tmp_path / "001", grace=0.3)
    assert deaf.wait(timeout=5) == -9


def test_the_dead_do_not_count(tmp_path, start):
    process = start(tmp_path / "001", "print('up')")
    while process.poll() is None and processes.marked(tmp_path / "001"):
        pass
    assert processes.marked(tmp_path / "001") == []  # a zombie until the fixture waits for it
