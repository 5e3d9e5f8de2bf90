from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.trainer.records import Records, scalars


@pytest.fixture
def records(tmp_path) -> Records:
    return Records(folder=tmp_path, attempt=2, total=40)


def test_the_same_table_gives_the_same_bytes(records):
    table = pa.table({"step": pa.array([1, 2], pa.int32()), "group": ["a", "b"]})
    records.write_outcomes("train", 3, table)
    first = records.outcomes("train", 3).read_bytes()
    records.write_outcomes("train", 3, table)
    assert records.outcomes("train", 3).read_bytes() == first
    assert records.outcomes("train", 3).name == "step_000003.parquet"
    read = pq.ParquetFile(records.outcomes("train", 3))
    assert read.metadata.row_group(0).column(0).compression == "ZSTD"
    assert read.read() == table


def test_metrics_lines_hold_numbers_and_null(records):
    records.write_metrics(3, {"a": np.float32(1.5), "b": math.nan, "c": "text", "d": np.int64(4), "e": [1]})
    line = json.loads((records.folder / "metrics.jsonl").read_text())
    assert (line["step"], line["attempt"]) == (3, 2)
    assert line["metrics"] == {"a": 1.5, "b": None, "d": 4}
    assert isinstance(line["time"], float)


def test_later_lines_of_a_step_win(records):
    for step, value in [(2, 1.0), (1, 5.0), (2, 3.0)]:
        records.write_metrics(step, {"a": value})
    assert [(line["step"], line["metrics"]["a"]) for line in records.read_metrics()] == [(1, 5.0), (2, 3.0)]


def test_rewinding_drops_what_follows_the_checkpoint(records):
    table = pa.table({"a": [1]})
    for step in (0, 1, 2, 3):
        records.write_metrics(step, {"a": step})
        for kind in ("train", "eval", "tokens"):
            records.write_outcomes(kind, step, table)
    other = records.folder / "outcomes" / "train" / "notes.txt"
    other.write_text("mine")
    records.rewind(1)
    assert [line["step"] for line in records.read_metrics()] == [0, 1]
    for kind in ("train", "eval", "tokens"):
        names = sorted(path.name for path in (records.folder / "outcomes" / kind).glob("*.parquet"))
        assert names == ["step_000000.parquet", "step_000001.parquet"]
    assert other.read_text() == "mine"


def test_rewinding_an_empty_run_makes_no_files(records):
    records.rewind(0)
    assert list(records.folder.iterdir()) == []


def test_the_heartbeat_keeps_the_last_values_of_the_live_table(records):
    records.beat("eval", 0, metrics={"eval/pass@1": 0.25, "actor/lr": 1.0})
    records.beat("train", 1, seconds=0.5, metrics={"actor/entropy": 2.0, "advantage/zero_share": math.inf})
    beat = json.loads((records.folder / "heartbeat.json").read_text())
    assert beat["metrics"] == {"eval/pass@1": 0.25, "actor/entropy": 2.0}
    assert (beat["phase"], beat["step"], beat["total"], beat["step_seconds"]) == ("train", 1, 40, 0.5)


def test_a_resumed_run_shows_what_was_logged_up_to_its_checkpoint(records):
    for step in (1, 2, 3):
        records.write_metrics(step, {"actor/entropy": float(step)})
    records.show(records.read_metrics(), 2)
    records.beat("start", 2)
    assert json.loads((records.folder / "heartbeat.json").read_text())["metrics"] == {"actor/entropy": 2.0}


def test_scalars_takes_one_element_arrays():
    assert scalars({"a": np.array([2.0]), "b": np.array([1.0, 2.0]), "c": True}) == {"a": 2.0, "c": 1}
