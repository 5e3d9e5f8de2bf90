from __future__ import annotations

from harness.trainer.tracking import logged_config, rows_to_repeat


def lines(times: list[float]) -> list[dict]:
    return [{"step": step, "time": time, "metrics": {}} for step, time in enumerate(times)]


def repeated(times: list[float], resumed: int) -> list[int]:
    return [line["step"] for line in rows_to_repeat(lines(times), resumed, margin=90.0)]


def test_rows_shortly_before_the_end_are_repeated_up_to_the_checkpoint():
    assert repeated([0, 100, 200, 300, 310, 320], 4) == [3, 4]


def test_rows_behind_the_checkpoint_are_not_repeated():
    assert repeated([0, 1, 2, 3], 1) == [0, 1]
    assert repeated([0, 1000, 2000], 0) == []


def test_repeated_rows_have_no_gap():
    unordered = [{"step": 0, "time": 50.0}, {"step": 1, "time": 5.0}, {"step": 2, "time": 60.0}]
    assert [line["step"] for line in rows_to_repeat(unordered, 2, margin=20.0)] == [0, 1, 2]


def test_a_fresh_run_repeats_nothing():
    assert rows_to_repeat([], 0) == []


def test_the_logged_config_is_the_composed_one_with_verls():
    spec = {"id": "0123456789", "label": "QAE", "config": {"seed": 1}, "verl": {"trainer": {}}, "provenance": {"x": 1}}
    assert logged_config(spec) == {"seed": 1, "verl": {"trainer": {}}, "id": "0123456789", "label": "QAE"}
