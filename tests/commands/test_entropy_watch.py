from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison import ablation
from analysis.sources import store
from analysis.statistics.entropy import METRICS, judge
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
        ([1.0] * 30 + [None], "not a number"),
        ([1.0] * 3 + [None] + [1.0] * 3, "not a number, over"),
        ([1.0] * 20 + [0.05] * 20 + [1.0] * 20, "collapsed, over"),
        ([0.03] * 20, "low"),
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
    real = entropy_watch.flag
    monkeypatch.setattr(entropy_watch, "flag", lambda log: read.append(log.parent.name) or real(log))
    write(tmp_path / "b", [5.0] * 20, start=21)
    assert entropy_watch.flags(tmp_path, ["a", "b"]) == {"b": "exploded"}
    assert read == ["b"]


def test_a_later_line_of_a_step_wins_and_a_torn_one_is_skipped(tmp_path):
    write(tmp_path / "a", [1.0, 2.0])
    write(tmp_path / "a", [3.0], start=2)
    with (tmp_path / "a" / "metrics.jsonl").open("a") as log:
        log.write('{"step": 3, "met')
    assert entropy_watch.read(tmp_path / "a" / "metrics.jsonl") == {1: 1.0, 2: 3.0}


@given(st.lists(st.floats(0.6, 1.6) | st.floats(0.01, 10) | st.just(math.nan), max_size=60), st.floats(0.05, 2))
def test_what_is_calm_gets_no_flag(values, level):
    values = [level * value for value in values]
    if entropy_watch.calm(values):
        assert judge(range(len(values)), values).flag == ""


def test_the_names_are_the_detectors():
    assert tuple(json.loads(b"{" + name + b"0}").popitem()[0] for name in entropy_watch._ENTROPY) == METRICS


def entry(step, value, attempt=1, name="entropy/all"):
    metrics = {"training/global_step": step, name: value}
    return json.dumps({"step": step, "time": 1.0, "attempt": attempt, "metrics": metrics}) + "\n"


UNDONE = [entry(i, 1.0) for i in range(1, 21)] + [entry(i, 0.02) for i in range(21, 41)]
LOGS = {
    "a collapse that a resumed attempt undid": [*UNDONE, *(entry(i, 1.0, attempt=2) for i in range(21, 36))],
    "a collapse": UNDONE,
    "a NaN inside": [entry(i, None if i == 7 else 1.0) for i in range(1, 31)],
    "an evaluation before the resumed steps": [
        *UNDONE, json.dumps({"step": 10, "attempt": 2, "metrics": {"eval/pass@1": 0.1}}) + "\n",
        *(entry(i, 0.02, attempt=2) for i in range(31, 36)),
    ],
    "a torn line, and one that is being written": [*UNDONE[:15], UNDONE[15][:40] + "\n", *UNDONE[15:], entry(41, 1)[:60]],
    "first steps lost": UNDONE[15:],
    "both metrics, at odds": [
        *(entry(i, 1.0) for i in range(1, 21)),
        *(entry(i, 1.0).replace('"entropy/all"', '"actor/entropy": 0.01, "entropy/all"') for i in range(21, 41)),
    ],
    "verl's own name": [entry(i, 1.0 if i < 21 else 9.0, name="actor/entropy") for i in range(1, 41)],
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_status_and_report_agree_at_every_line(tmp_path, name):
    """Both read the same log their own way; what each says while it grows must be the same."""
    folder = tmp_path / "0000000001"
    folder.mkdir()
    (folder / "spec.json").write_text(json.dumps({"id": folder.name, "config": {}}))
    seen = set()
    for n in range(1, len(LOGS[name]) + 1):
        (folder / "metrics.jsonl").write_text("".join(LOGS[name][:n]))
        found = ablation.health_of(store.load_run(folder))
        assert entropy_watch.flag(folder / "metrics.jsonl") == (found.flag if found else ""), n
        seen.add(found.flag if found else "")
    assert len(seen) > 1 or name == "both metrics, at odds"
