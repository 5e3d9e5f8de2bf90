from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.sources import local
from harness.tasks.data import prepared
from harness.trainer import main

SPEC = {
    "schema": 1, "id": "0123456789", "label": "mean",
    "config": {"tracking": {"name": "offline", "project": "p"}}, "verl": {"trainer": {"device": "cpu"}},
}  # fmt: skip

FAKE = """
import sys, time
from pathlib import Path
from harness.trainer import main, processes, tracking
import subprocess

def train(spec, attempt, ray_temp, cluster, after_start):
    after_start()
    kind = sys.argv[1]
    if kind == "error":
        raise RuntimeError("no such luck")
    if kind == "wandb":
        run = tracking.start(spec, attempt.run_dir)
        for step in range(50):
            run.log({"training/global_step": step}, step=step)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    (attempt.run_dir / "ready").touch()
    while not (kind == "polite" and attempt.stop_file.exists()):
        time.sleep(0.05)

main._train = train
sys.exit(main.main(sys.argv[2:]))
"""
"""main with a trainer that does nothing for a while; `polite` ends when asked, the others never."""


@pytest.fixture
def launch(tmp_path):
    started = []

    def run(kind: str, *options: str) -> subprocess.Popen:
        (tmp_path / "spec.json").write_text(json.dumps(SPEC))
        command = [sys.executable, "-c", FAKE, kind, str(tmp_path), *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        while kind != "error" and not (tmp_path / "ready").exists():
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def left(run_dir: Path) -> bool:
    """Whether anything of the attempt is still there: processes or Ray's folder."""
    folder = run_dir.resolve() / "attempts" / "001"
    return bool(main.processes.marked(folder)) or (folder / "ray_temp").exists()


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "does not exist"),
        ("{", "is damaged"),
        ('{"schema": 2}', "no spec of schema 1"),
        ('{"schema": 1, "id": "0123456789"}', "has no 'verl'"),
    ],
)
def test_a_bad_spec_is_one_line_and_exit_code_2(tmp_path, capsys, content, words):
    if content is not None:
        (tmp_path / "spec.json").write_text(content)
    assert main.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert error.count("\n") == 1


def test_a_good_spec_is_read(tmp_path):
    spec = {"schema": 1, "id": "0123456789", "verl": {}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert main.read_spec(tmp_path) == spec


def test_a_signal_asks_the_trainer_to_end_and_nothing_is_left(tmp_path, launch):
    process = launch("polite")
    assert left(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert (tmp_path / "attempts" / "001" / "stop").exists()
    assert not left(tmp_path)


@pytest.mark.parametrize("options, signals", [(["--grace", "0.5"], 1), ([], 2)])
def test_a_trainer_that_does_not_end_is_ended(tmp_path, launch, options, signals):
    process = launch("deaf", *options)
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    assert process.wait(timeout=30) == 143
    assert not left(tmp_path)


def test_an_error_leaves_its_traceback_and_exit_code_1(tmp_path, launch):
    process = launch("error")
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "RuntimeError: no such luck" in output
    assert not left(tmp_path)


@pytest.mark.slow
def test_an_end_by_force_flushes_a_wandb_of_its_own(tmp_path, launch, monkeypatch):
    monkeypatch.setenv("WANDB_SERVICE", "3-1-tcp-localhost-1")  # as a process that uses W&B leaves it to its children
    process = launch("wandb", "--grace", "0.1")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    (run,) = local.load(tmp_path / "wandb")
    assert run.history["step"].tolist() == list(range(50))


def test_a_planned_run_is_not_started_on_truths_that_an_earlier_version_altered(tmp_path, capsys):
    data = tmp_path / "math500.parquet"
    marked = pa.table({"prompt": ["x"]}).replace_schema_metadata({prepared.CONTENT_KEY: b"0"})
    pq.write_table(marked, data)
    spec = {**SPEC, "verl": {**SPEC["verl"], "data": {"train_files": [], "val_files": [str(data)]}}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert main.main([str(tmp_path), "--attempt", "1"]) == 2
    assert "run `harness data prepare math500` again" in capsys.readouterr().err
    assert not (tmp_path / "attempts").exists()
