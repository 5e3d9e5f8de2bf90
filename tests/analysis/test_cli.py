from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    "arguments",
    [
        ["--filter", "seed=9"],
        ["--source", "locl"],
        ["--source", "csv:"],
        ["--nope"],
        ["--source", f"console:{'a' * 5000}"],
        ["--source", "csv:a\0b"],
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(source, arguments, capsys):
    assert cli.main(["runs", "--source", source, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnus"], "no verb 'rnus'; did you mean runs?"),
        (["report"], "python -m analysis report: the following arguments are required: SWEEP"),
        (["runs", "--fliter", "seed=1"], "python -m analysis runs: unrecognized arguments: --fliter"),
        (["report", "smoky"], "no sweep 'smoky'; did you mean smoke?"),
        (["report", "smoke"], "sweep 'smoke' was never applied here: start it with `harness sweep smoke`"),
    ],
)
def test_mistyped_words_are_one_line_that_names_the_remedy(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path))
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def test_no_words_are_a_question_for_help(capsys):
    assert cli.main([]) == 0
    assert "report" in capsys.readouterr().out


def test_a_run_that_was_stopped_is_not_called_finished_by_w_and_b(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "runs" / "00000000aa"
    log.write(folder / "wandb", "00000000aa", [log.run("00000000aa", 1, {}), *log.rows(1, 2, loss=float), log.leave()])
    (folder / "spec.json").write_text('{"label": "mean", "config": {"steps": 4}}')
    (folder / "attempts" / "001").mkdir(parents=True)
    ended = {"number": 1, "ended": 2.0, "cause": "stopped", "reason": "asked to stop"}
    (folder / "attempts" / "001" / "attempt.json").write_text(json.dumps(ended))
    assert cli.main(["runs"]) == 0
    assert "finished" not in capsys.readouterr().out


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


def test_every_source_that_is_a_file(tmp_path, capsys):
    (tmp_path / "log.csv").write_text("step,entropy_avg\n1,0.5\n2,0.4\n")
    (tmp_path / "run.log").write_text("step:1 - actor/entropy:0.5\nstep:3 - actor/entropy:0.4\n")
    for source, name, last in (("csv", "log.csv", "2"), ("console", "run.log", "3")):
        assert cli.main(["runs", "--source", f"{source}:{tmp_path / name}"]) == 0
        row = capsys.readouterr().out.splitlines()[1].split()
        assert row[:3] == [name.split(".")[0], "unknown", last]


def test_the_store_is_found_by_its_variable(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "store" / "00000000aa"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text('{"label": "mean", "config": {"steps": 1}}')
    (folder / "metrics.jsonl").write_text('{"step": 1, "metrics": {"loss": 1}}\n')
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    assert cli.main(["runs", "--source", "harness"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["00000000aa", "mean"]
