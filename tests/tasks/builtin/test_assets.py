"""The cache of the built-in task: complete or absent, made once, shared; and what the warm start lands at."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from harness.errors import HarnessError
from harness.tasks.builtin import arithmetic, build
from harness.tasks.builtin.assets import MODEL_FILES, ensure, locate


@pytest.fixture
def quick(monkeypatch):
    """Replaces the warm start by empty files; returns the folders that were written to."""
    made = []

    def write_model(folder, name):
        made.append(folder)
        for file in MODEL_FILES:
            (folder / file).write_text(name)

    monkeypatch.setattr(build, "write_model", write_model)
    return made


def test_what_is_there_is_not_made_again(tmp_path, quick):
    first = ensure(tmp_path, "tiny")
    assert ensure(tmp_path, "tiny") == first == locate(tmp_path, "tiny")
    assert len(quick) == 1
    assert first.train_file.is_file()
    assert [file.stem for file in first.eval_files] == list(arithmetic.BENCHMARKS)


def test_models_share_the_data_and_not_their_folder(tmp_path, quick):
    tiny, small = ensure(tmp_path, "tiny"), ensure(tmp_path, "small")
    assert tiny.train_file == small.train_file
    assert tiny.model_path != small.model_path


def test_a_maker_that_fails_leaves_no_folder_and_the_next_one_succeeds(tmp_path, quick, monkeypatch):
    working = build.write_model

    def killed(folder, name):
        working(folder, name)
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "write_model", killed)
    with pytest.raises(KeyboardInterrupt):
        ensure(tmp_path, "tiny")
    assert not locate(tmp_path, "tiny").model_path.exists()
    monkeypatch.setattr(build, "write_model", working)
    assert (ensure(tmp_path, "tiny").model_path / "config.json").is_file()


def test_what_a_killed_maker_left_is_never_read_and_is_removed(tmp_path, quick):
    model = locate(tmp_path, "tiny").model_path
    left = model.parent / f".{model.name}.abc.tmp"
    left.mkdir(parents=True)
    (left / "config.json").write_text("half")
    ensure(tmp_path, "tiny")
    assert not left.exists()
    assert (model / "config.json").read_text() == "tiny"


def test_a_folder_damaged_by_hand_is_made_anew(tmp_path, quick):
    model = ensure(tmp_path, "tiny").model_path
    (model / "model.safetensors").unlink()
    ensure(tmp_path, "tiny")
    assert (model / "model.safetensors").is_file()
    assert len(quick) == 2


def test_others_may_read_a_shared_cache(tmp_path, quick):
    model = ensure(tmp_path, "tiny").model_path
    assert model.stat().st_mode & 0o777 == 0o755
    assert all(file.stat().st_mode & 0o044 == 0o044 for file in model.iterdir())


@pytest.mark.slow
def test_two_processes_at_once_make_it_once(tmp_path):
    """The first holds the lock in its maker until the second has had time to ask."""
    code = (
        "import sys, time; from pathlib import Path; from harness.tasks.builtin import assets, build\n"
        "cache = Path(sys.argv[1])\n"
        "def write_model(folder, name):\n"
        "    (cache / f'made.{time.time_ns()}').touch(); time.sleep(1)\n"
        "    for file in assets.MODEL_FILES: (folder / file).write_text(name)\n"
        "build.write_model = write_model\n"
        "assert (assets.ensure(cache, 'tiny').model_path / 'config.json').is_file()\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert len(list(tmp_path.glob("made.*"))) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_without_permission_is_named(tmp_path, quick):
    tmp_path.chmod(0o555)
    with pytest.raises(HarnessError, match="HARNESS_CACHE"):
        ensure(tmp_path, "tiny")


def test_a_cache_that_is_a_file_is_named(tmp_path, quick):
    (tmp_path / "cache").write_text("")
    with pytest.raises(HarnessError, match="cache.*HARNESS_CACHE"):
        ensure(tmp_path / "cache", "tiny")


def test_the_rows_are_verls(tmp_path, quick):
    made = ensure(tmp_path, "tiny")
    rows = pq.read_table(made.train_file).to_pylist()
    assert len(rows) == 2 * arithmetic.TRAINING_PROBLEMS
    problem = arithmetic.training_set()[0]
    assert rows[0] == {
        "data_source": problem.benchmark,
        "prompt": [{"role": "user", "content": problem.prompt}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": problem.answer},
        "extra_info": {"split": "train", "index": problem.index},
    }
    for file, benchmark in zip(made.eval_files, arithmetic.BENCHMARKS, strict=True):
        assert {row["data_source"] for row in pq.read_table(file).to_pylist()} == {benchmark}


def test_the_command_names_an_unknown_model(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "harness.tasks.builtin", str(tmp_path), "smal"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: model.builtin=smal")
    assert "small" in result.stderr
    assert "Traceback" not in result.stderr
