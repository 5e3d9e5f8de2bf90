from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from harness import cli, files

STUDY = "overrides: [steps=4, save_every=2, evaluation.every=2]\ngrid: [{baseline: [mean, qae]}]\n"


def run(capsys, *arguments):
    code = cli.main(list(arguments))
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["swep"], "no verb 'swep'; did you mean sweep?"),
        (["plan", "smok"], "did you mean smoke?"),
        (["train", "baseline=qea"], "conf/baseline has no 'qea'; did you mean qae?"),
        (["train", "baseline=qae", "baseline.K=1.2"], "baseline.K=1.2: K lies strictly between 0 and 1"),
        (["train", "evaluation.samples=8"], "pass@16 needs at least 16 samples a problem: set evaluation.samples=16"),
        (["train", "verl.trainer.foo=1"], "verl.trainer.foo: verl"),
        (["train", "model=tiny", "platform=cuda"], "platform=cuda needs at least 1 GPU"),
        (["plan", "--watch"], "unrecognized arguments: --watch"),
        (["why", "1", "2"], "run '1': none in"),
        (["status", "never"], "'never' is no applied sweep"),
        (["status", "smoke"], "sweep 'smoke' was never applied here: start it with `harness sweep smoke`"),
        (["logs", "smoke", "--folow"], "harness logs: unrecognized arguments: --folow; see `harness logs --help`"),
        (["why", "1"], "harness why: the following arguments are required: OTHER"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    assert not (tmp_path / "runs").exists(), "a mistake leaves nothing behind"


def test_plan_prints_every_point_with_its_reason(lab, capsys):
    lab.sweep(STUDY)
    code, out, _ = run(capsys, "plan", "study")
    assert code == 0
    assert out.count("new") == 2
    assert "QAE K=0.4, tiny, seed 1" in out
    assert out.endswith("2 to add\n")


@pytest.mark.slow
def test_why_tells_science_from_the_rest(lab, capsys):
    lab.sweep(STUDY)
    lab.apply()
    capsys.readouterr()
    a, b = (e.id for e in lab.plan())
    code, out, _ = run(capsys, "why", a[:6], b)
    assert code == 0
    assert "decides the science:" in out
    assert "baseline.rank" in out
    code, out, _ = run(capsys, "why", a, a)
    assert "the same experiment" in out


@pytest.mark.slow
def test_status_shows_every_run_and_why_one_failed(lab, capsys):
    lab.sweep(STUDY)
    lab.wish(fail="mean")
    lab.apply()
    capsys.readouterr()
    code, out, _ = run(capsys, "status", "study")
    assert code == 0
    assert "ValueError: loss is nan" in out
    lines = {e.label: next(line for line in out.splitlines() if line.startswith(e.id)) for e in lab.plan()}
    assert "failed" in lines["mean (GRPO), tiny, seed 1"]
    assert "done" in lines["QAE K=0.4, tiny, seed 1"]
    assert "4/4" in lines["QAE K=0.4, tiny, seed 1"]
    assert run(capsys, "status")[1].count("4/4") == 1


@pytest.mark.slow
def test_a_damaged_run_folder(lab, capsys):
    lab.sweep(STUDY)
    lab.apply()
    capsys.readouterr()
    damaged = lab.runs / lab.plan()[0].id / "done.json"
    damaged.write_text("{")
    for verb in ("plan", "sweep", "status"):
        code, _, err = run(capsys, verb, "study")
        assert code == 2
        assert "done.json is damaged" in err
        assert err.count("\n") == 1
    assert damaged.read_text() == "{"


def test_no_space_and_no_permission_are_named_with_a_remedy(lab, capsys, monkeypatch):
    lab.sweep(STUDY)
    for code, words in ((errno.ENOSPC, "No space left on device"), (errno.EACCES, "Permission denied")):

        def refuse(path, text, code=code):
            raise OSError(code, os.strerror(code), str(path))

        with monkeypatch.context() as patch:
            patch.setattr(files, "write_text", refuse)
            status, _, err = run(capsys, "sweep", "study")
        assert status == 2
        assert words in err
        assert "HARNESS_RUNS" in err
        assert err.count("\n") == 1


@pytest.mark.slow
def test_a_full_disk_in_the_middle_of_freezing(lab, capsys, monkeypatch):
    from harness.store import runs

    lab.sweep(STUDY)

    def refuse(self, run, spec, diff=""):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "spec.json")

    with monkeypatch.context() as patch:
        patch.setattr(runs.Store, "freeze", refuse)
        code, _, err = run(capsys, "sweep", "study")
    assert code == 2
    assert "spec.json: No space left on device; free some space" in err
    assert lab.apply() == 0


@pytest.mark.parametrize("verb", ["plan", "status"])
def test_fast_verbs_import_nothing_heavy(lab, verb):
    lab.sweep(STUDY)
    code = (
        "import sys; from pathlib import Path; from harness import cli; from harness.config import grid\n"
        f"grid.folder = lambda: Path({str(lab.file().parent)!r})\n"
        f"cli.main([{verb!r}] + ['study'] * ({verb!r} == 'plan'))\n"
        "print(sorted({'torch', 'verl', 'ray', 'wandb', 'pandas', 'numpy', 'transformers', 'submitit'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_overrides_of_the_command_line_win_over_the_files(lab, capsys):
    lab.sweep("overrides: [cluster=slurm, steps=6]\nseeds: [1]")
    assert cli.main(["plan", "study", "cluster=local", "baseline=qae", "baseline.K=0.3"]) == 0
    assert "QAE K=0.3, tiny, seed 1" in capsys.readouterr().out
    lab.sweep("overrides: [steps=6]\nseeds: [2]", name="smoke")
    assert cli.main(["plan", "baseline=rloo"]) == 0
    assert "RLOO, tiny, seed 2" in capsys.readouterr().out


def test_a_run_that_never_fits_this_machine_is_refused_before_anything_is_written(lab, capsys):
    lab.sweep(STUDY.replace("steps=4,", "steps=4, model.resources.memory_gb=1e6,"))
    code, _, err = run(capsys, "sweep", "study")
    assert code == 2
    assert "model.resources.memory_gb=1e+06: this machine has" in err
    assert not lab.runs.exists()


def test_an_error_is_one_line_whatever_it_quotes(lab, capsys):
    lab.sweep('grid: [{model: "a\\nb"}]')
    code, _, err = run(capsys, "plan", "study")
    assert code == 2
    assert "conf/model has no" in err
    assert err.count("\n") == 1


def test_a_file_in_place_of_the_runs_folder(lab, capsys, monkeypatch):
    lab.sweep(STUDY)
    lab.runs.write_text("mine")
    for verb in (["plan", "study"], ["sweep", "study"], ["status"]):
        code, _, err = run(capsys, *verb)
        assert code == 2
        assert f"{lab.runs} is no folder: set HARNESS_RUNS to a folder" in err
    monkeypatch.setenv("HARNESS_RUNS", str(lab.runs / "below"))
    code, _, err = run(capsys, "sweep", "study")
    assert code == 2
    assert "a part of this path is a file" in err
    assert lab.runs.read_text() == "mine"


def test_what_may_not_be_run_is_not_there(lab, capsys, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied", "nvidia-smi")

    from harness.config import machine
    from harness.planning import provenance

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(subprocess, "run", refuse)
    assert machine.survey().gpus == ()
    assert provenance.collect(lab.runs / "nowhere").record["git_sha"] is None
