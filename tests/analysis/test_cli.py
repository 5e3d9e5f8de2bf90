from __future__ import annotations

import os
import subprocess
import sys

import pytest

from analysis import cli
from tests.support import wandb_log as log


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    for seed in (1, 2):
        log.write(
            tmp_path / "runs",
            f"r{seed}",
            [log.run(f"r{seed}", seed, {"seed": seed}, name=f"arm {seed}"), *log.rows(1, 12, loss=float), log.leave()],
        )
    return f"local:{tmp_path / 'runs'}"


def test_runs_lists_what_the_filter_keeps(source, capsys):
    assert cli.main(["runs", "--source", source, "--filter", "seed=2", "--metrics"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split()[:5] == ["r2", "arm", "2", "finished", "12"]
    assert "    loss" in out
    assert not any("r1" in line for line in out)


@pytest.mark.parametrize("arguments", [["--filter", "seed=9"], ["--source", "locl"], ["--source", "csv:"]])
def test_a_mistake_is_one_line_and_exit_code_2(source, arguments, capsys):
    assert cli.main(["runs", "--source", source, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_reading_files_imports_neither_wandb_nor_verl(source):
    code = (
        "import sys; from analysis.cli import main; main(['runs', '--source', sys.argv[1]]);"
        "print([m for m in ('wandb', 'verl', 'torch', 'ray', 'google.protobuf') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, source],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert done.stdout.splitlines()[-1] == "[]"
