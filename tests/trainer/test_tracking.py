from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.trainer.tracking import logged_config, rows_to_repeat


def lines(times: list[float]) -> list[dict]:
    return [{"step": step, "time": time, "metrics": {}} for step, time in enumerate(times)]


def repeated(times: list[float], resumed: int) -> list[int]:
    return [line["step"] for line in rows_to_repeat(lines(times), resumed, margin=90.0)]


def test_rows_shortly_before_the_end_are_repeated_up_to_the_checkpoint():
    assert repeated([0, 100, 200, 300, 310, 320], 4) == [2, 3, 4]  # row 2 was held back until row 3 came


def test_of_long_steps_the_last_two_are_repeated():
    assert repeated([0, 1000, 2000, 3000], 3) == [2, 3]
    assert repeated([0], 0) == [0]


def test_rows_behind_the_checkpoint_are_not_repeated():
    assert repeated([0, 1, 2, 3], 1) == [0, 1]
    assert repeated([0, 1000, 2000, 3000], 1) == []


def test_repeated_rows_have_no_gap():
    unordered = [{"step": step, "time": time} for step, time in enumerate([55.0, 50.0, 5.0, 60.0])]  # a clock set back
    assert [line["step"] for line in rows_to_repeat(unordered, 3, margin=20.0)] == [0, 1, 2, 3]


def test_a_fresh_run_repeats_nothing():
    assert rows_to_repeat([], 0) == []


def test_the_logged_config_is_the_composed_one_with_verls():
    spec = {"id": "0123456789", "label": "QAE", "config": {"seed": 1}, "verl": {"trainer": {}}, "provenance": {"x": 1}}
    assert logged_config(spec) == {"seed": 1, "verl": {"trainer": {}}, "id": "0123456789", "label": "QAE"}


@pytest.mark.slow
def test_online_without_a_key_goes_on_offline(tmp_path):
    code = (
        "import sys; from pathlib import Path; from harness.trainer import tracking;"
        "spec = {'id': '0123456789', 'label': 'QAE', 'config': {'tracking': {'project': 'p'}}, 'verl': {}};"
        "run = tracking.start(spec, Path(sys.argv[1])); run.log({'training/global_step': 1}, step=1); run.finish();"
        "tracking.finish_service()"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    environment |= {"HOME": str(tmp_path), "WANDB_MODE": "online", "WANDB_BASE_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "logging offline" in result.stderr
    assert list((tmp_path / "wandb").glob("offline-run-*/run-0123456789.wandb"))
