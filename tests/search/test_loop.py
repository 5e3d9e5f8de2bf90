"""`harness ksearch` with processes of its own and the stand-in trainer, which writes real outcome files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import files
from harness.config import grid
from harness.store.runs import Store

pytestmark = pytest.mark.slow

STUDY = """
question: Which K?
overrides: [cluster=local, cluster.fork_server=false, steps=4, save_every=2, evaluation.every=2, cluster.grace_seconds=5,
            model.resources.memory_gb=0.2, model.resources.cpus=1]
space: {rank: {K: [0.4, 0.6]}}
budget: {runs: 7, gpu_hours: 1}
in_flight: 2
seeds: {most: 1}
confirm: {trials: 1, seeds: 1, compare: [mean]}
"""
CODE = (
    "import sys; from pathlib import Path; from harness.config import grid\n"
    "grid.folder = lambda: Path(sys.argv[1])\n"
    "from harness.search.loop import ksearch\n"
    "from harness.errors import HarnessError\n"
    "try:\n"
    "    code = ksearch('s', once='--once' in sys.argv, report=False, trainer='tests.support.search_trainer')\n"
    "except HarnessError as error:\n"
    "    print('error:', error); code = 2\n"
    "sys.exit(code)"
)


class Lab:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sweeps, self.runs = folder / "sweeps", folder / "runs"
        (self.sweeps / "search").mkdir(parents=True)
        (self.sweeps / "search" / "s.yaml").write_text(STUDY)
        monkeypatch.setenv("HARNESS_RUNS", str(self.runs))
        monkeypatch.setenv("HARNESS_CACHE", str(folder / "cache"))
        monkeypatch.setattr(grid, "folder", lambda: self.sweeps)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CODE, str(self.sweeps), *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        output = process.communicate(timeout=300)[0]
        return process.returncode, output

    def trained(self) -> dict[str, list[dict]]:
        store = Store(self.runs)
        return {run: files.read_json_lines(store.folder(run) / "trained.jsonl")[0] for run in store.ids()}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return Lab(tmp_path, monkeypatch)


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.1)


def test_a_study_runs_to_its_winner_and_its_page(lab, tmp_path, monkeypatch):
    held = "objective: {benchmarks: [valid]}\nheld_out: {overrides: [evaluation.samples=32], seeds: 1}\n"
    (lab.sweeps / "search" / "s.yaml").write_text(STUDY.replace("runs: 7", "runs: 8") + held)
    code, output = lab.run()
    assert code == 0, output
    assert "winner: rank 10 of 16, K in (0.5625, 0.625]" in output
    assert "below 3 fresh seeds no claim about the method is possible" in output
    trained = lab.trained()
    assert all(len(attempts) == 1 for attempts in trained.values())
    code, again = lab.run()
    assert (code, lab.trained()) == (0, trained)
    assert "winner: rank 10" in again

    from harness.cli import main
    from harness.search.loop import plan

    assert "done: trials" in plan("s")
    assert main(["report", "search/s", "--out", str(tmp_path / "page"), "--no-figures"]) == 0
    html = (tmp_path / "page" / "index.html").read_text()
    assert "rank 10 of 16" in html
    assert "against the mean baseline" in html
    assert "seed 1002: held " in html


def test_a_second_controller_is_told_who_holds_the_study_and_one_that_is_killed_is_followed(lab, monkeypatch):
    monkeypatch.setenv("SEARCH_TRAINER", '{"step_seconds": 0.4}')
    first = lab.start()
    until(lambda: any(lab.trained().values()))
    code, output = lab.run()
    assert code == 2
    assert f"study s: {lab.runs / '_studies' / 's'} is in use by process {first.pid}" in output
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=30)
    monkeypatch.setenv("SEARCH_TRAINER", "{}")
    until(lambda: all(Store(lab.runs).state(run).kind != "running" for run in lab.trained()))
    code, output = lab.run()
    assert code == 0, output
    assert "winner: rank 10" in output
    for attempts in lab.trained().values():
        assert [a["from"] for a in attempts] == sorted({a["from"] for a in attempts}), "a step was trained again"


def test_interrupted_it_says_how_to_go_on_and_leaves_nothing_running(lab, monkeypatch):
    monkeypatch.setenv("SEARCH_TRAINER", '{"step_seconds": 0.4}')
    process = lab.start()
    until(lambda: any(lab.trained().values()))
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "the same command goes on: harness ksearch s" in output
    assert all(Store(lab.runs).state(run).kind != "running" for run in lab.trained())


def test_ticks_of_cron_carry_a_study_to_its_end(lab, capsys):
    from harness.search.loop import ksearch

    deadline = time.monotonic() + 240
    while "winner: rank 10" not in capsys.readouterr().out:
        assert ksearch("s", once=True, report=False, trainer="tests.support.search_trainer") == 0
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert all(len(attempts) == 1 for attempts in lab.trained().values())


def test_a_failing_trial_is_named_and_the_study_goes_on(lab, monkeypatch):
    monkeypatch.setenv("SEARCH_TRAINER", '{"fail": "K=0.6"}')
    code, output = lab.run()
    assert code == 0, output
    assert "failed: " in output
    assert "loss is nan at step 2" in output
    assert "winner: rank 7 of 16" in output
