from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.entropy import judge
from harness.commands import entropy_watch


def write(folder, values, name="entropy/all", start=1):
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"step": i, "time": 1.0, "attempt": 1, "metrics": {"a": 1.0, name: v}} for i, v in enumerate(values, start)]
    with (folder / "metrics.jsonl").open("a") as log:
        log.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ([1.0] * 40, None),
        ([1.0] * 20 + [0.05] * 20, "collapsed"),
        ([1.0] * 20 + [4.0] * 20, "exploded"),
        ([1.0] * 5, None),
        ([1.0] * 30 + [None], "diverged"),
    ],
)
@pytest.mark.parametrize("name", ["entropy/all", "actor/entropy"])
def test_flags(tmp_path, values, flag, name):
    write(tmp_path / "run", values, name)
    assert entropy_watch.flags(tmp_path, ["run", "absent"]) == ({"run": flag} if flag else {})


def test_a_log_that_grew_is_read_again_and_others_are_not(tmp_path, monkeypatch):
    write(tmp_path / "a", [1.0] * 20)
    write(tmp_path / "b", [1.0] * 20)
    entropy_watch.flags(tmp_path, ["a", "b"])
    read = []
    real = entropy_watch.verdict
    monkeypatch.setattr(entropy_watch, "verdict", lambda log: read.append(log.parent.name) or real(log))
    write(tmp_path / "b", [5.0] * 20, start=21)
    assert entropy_watch.flags(tmp_path, ["a", "b"]) == {"b": "exploded"}
    assert read == ["b"]


def test_a_later_line_of_a_step_wins_and_a_torn_one_is_skipped(tmp_path):
    write(tmp_path / "a", [1.0, 2.0])
    write(tmp_path / "a", [3.0], start=2)
    with (tmp_path / "a" / "metrics.jsonl").open("a") as log:
        log.write('{"step": 3, "met')
    assert entropy_watch.read(tmp_path / "a" / "metrics.jsonl") == {1: 1.0, 2: 3.0}


@given(st.lists(st.floats(0.01, 10) | st.just(math.nan), min_size=10, max_size=60))
def test_what_is_calm_is_steady(values):
    if entropy_watch.calm(values):
        assert judge(range(len(values)), values).verdict == "steady"
