from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.sources import wandbfile
from harness.errors import HarnessError
from tests.support import wandb_log as log
from tests.support.shared import SHARED, needs

FILES = sorted((SHARED / "wandb_runs").glob("*/*/*.wandb"))


@needs("wandb_runs")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name[-12:])
def test_facts_of_four_sdk_versions(path):
    found = wandbfile.read(path)
    entropy = found.columns["actor/entropy"]
    accuracy = found.columns["val-core/arith/acc/mean@4"]
    assert found.rows == 120
    assert list(found.columns["training/global_step"]) == list(range(1, 121))
    assert math.isnan(entropy[4])
    assert found.nans["actor/entropy"].tolist() == [4]
    assert entropy[5] == math.inf
    assert np.flatnonzero(~np.isnan(accuracy)).tolist() == [19, 39, 59, 79, 99, 119]
    assert accuracy[119] == pytest.approx(0.6)
    assert found.config["baseline"]["K"] == 0.4
    assert found.summary["nested"]["a"] == 1
    assert found.exit_code == 0
    assert not found.losses.any
    assert found.losses.torn == 0


@needs("wandb_runs")
@pytest.mark.parametrize("path", FILES[::3], ids=lambda path: path.parent.name[-12:])
def test_equals_the_sdks_own_protobuf(path):
    pb = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    from analysis.sources.framing import Losses, records

    found = wandbfile.read(path)
    row = 0
    for raw, _ in records(path.read_bytes(), 7, Losses()):
        record = pb.Record.FromString(raw)
        if record.WhichOneof("record_type") != "history":
            continue
        names = set()
        for item in record.history.item:
            name, value = ".".join(item.nested_key) or item.key, float(item.value_json)
            assert found.columns[name][row] == value or math.isnan(value)
            names.add(name)
        assert names == {
            name
            for name, values in found.columns.items()
            if not math.isnan(values[row]) or row in found.nans.get(name, ())
        }
        row += 1
    assert row == found.rows


def test_every_form_of_a_value(tmp_path):
    typed = log.message(1, log.message(1, b"typed") + bytes([6 << 3 | 1]) + struct.pack("<d", 2.5))
    integer = log.message(1, log.message(1, b"integer") + log.scalar(5, 5))  # zigzag: 5 is -3
    path = log.write(
        tmp_path,
        "a",
        [
            log.run("a", config={"baseline": {"K": 0.4}}, name="arm"),
            log.history(
                {
                    "x": 1,
                    "text": "high",
                    "inf": -math.inf,
                    "nan": math.nan,
                    "flag": True,
                    "none": None,
                    "as_text": "NaN",
                    "nested": {"a": 2, "b": {"c": 3}},
                    "media": {"_type": "table", "n": 1},
                    "é": 4,
                    "long": "y" * 5000,
                }
            ),
            log.history({("nested", "a"): 5, "x": 1e-300}, step=7),
            log.message(2, typed + integer),
        ],
    )
    found = wandbfile.read(path)
    got = {name: values.tolist() for name, values in found.columns.items()}
    nan = math.nan
    expected = {
        "x": [1, 1e-300, nan],
        "inf": [-math.inf, nan, nan],
        "nan": [nan, nan, nan],
        "flag": [1, nan, nan],
        "as_text": [nan, nan, nan],
        "nested.a": [2, 5, nan],
        "nested.b.c": [3, nan, nan],
        "é": [4, nan, nan],
        "_step": [nan, 7, nan],
        "typed": [nan, nan, 2.5],
        "integer": [nan, nan, -3],
    }
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values, err_msg=name)
    assert {name: rows.tolist() for name, rows in found.nans.items()} == {"nan": [0], "as_text": [0]}
    assert not found.losses.any


def test_later_summary_and_config_updates_win(tmp_path):
    def summary(*updates, removed=()):
        body = b"".join(log.message(1, log.item(path, value)) for path, value in updates)
        return log.message(3, body + b"".join(log.message(2, log.item(path, 0)) for path in removed))

    path = log.write(
        tmp_path,
        "a",
        [
            log.run("a", config={"lr": 1}),
            summary(("x", 1), ("gone", 1)),
            summary((("val", "max"), 2), ("x", 3)),
            summary(("val", 4)),
            summary((("val", "max"), 5)),
            summary(removed=["gone"]),
            log.message(5, log.message(1, log.item("lr", 2)) + log.message(1, log.item(["a", "b"], [1]))),
        ],
    )
    found = wandbfile.read(path)
    assert found.summary == {"x": 3, "val": {"max": 5}}
    assert found.config == {"lr": 2, "a": {"b": [1]}}


def many_rows(count: int = 700) -> bytes:
    """A file of several blocks, every row of which holds its own number in every metric."""
    return log.file([log.run("a"), *log.rows(1, count, **{f"metric/{i}": float for i in range(6)})])


def read(path, data: bytes) -> wandbfile.Fragment:
    path.write_bytes(data)
    return wandbfile.read(path)


def steps(fragment: wandbfile.Fragment) -> list[int]:
    found = fragment.columns.get("training/global_step", np.empty(0))
    assert all((fragment.columns[f"metric/{i}"] == found).all() for i in range(6 if len(found) else 0))
    return found.astype(int).tolist()


def test_torn_at_every_byte_around_a_block_boundary(tmp_path):
    data = many_rows()
    whole = steps(read(tmp_path / "a.wandb", data))
    assert whole == list(range(1, 701))
    for cut in range(log.BLOCK - 200, log.BLOCK + 200):
        found = read(tmp_path / "a.wandb", data[:cut])
        got = steps(found)
        assert got == whole[: len(got)]
        assert not found.losses.any, cut
        # Nothing that is whole is given up: the unfinished rest is shorter than one record with its headers.
        assert found.offset + found.losses.torn >= cut - 6
        assert found.losses.torn < 330


def test_a_flipped_bit_costs_one_record(tmp_path):
    data = many_rows()
    generator = random.Random(1)
    for _ in range(150):
        position = generator.randrange(7, len(data))
        damaged = bytearray(data)
        damaged[position] ^= 1 << generator.randrange(8)
        found = read(tmp_path / "a.wandb", bytes(damaged))
        lost = set(range(1, 701)) - set(steps(found))
        assert len(lost) <= 1, position
        padding = found.rows == 700 and not found.losses.any  # zeros at a block's end carry nothing
        last = 700 in lost or (found.losses.torn and not lost)
        assert found.losses.any or padding or last, position
        if lost and not last:
            assert found.losses.records == 1


def test_a_zeroed_stretch_costs_what_it_covers(tmp_path):
    data = many_rows()
    for start, length in [(5000, 100), (30000, 6000), (log.BLOCK, log.BLOCK), (40000, 50000)]:
        damaged = data[:start] + bytes(length) + data[start + length :]
        found = read(tmp_path / "a.wandb", damaged)
        got = set(steps(found))
        lost = 700 - len(got)
        assert found.losses.regions >= 1
        assert found.losses.bytes >= length
        assert found.losses.records == lost
        assert lost <= length / (len(data) / 700) + 2
        assert "records lost" in wandbfile.losses_text(found)


def test_a_record_over_several_blocks_is_put_together_and_lost_alone(tmp_path):
    big = log.message(4, b"x" * 100_000)  # an output record, of no interest but in the way
    records = [log.run("a"), *log.rows(1, 3), big, *log.rows(4, 6)]
    data = log.file(records)
    assert read(tmp_path / "a.wandb", data).rows == 6
    damaged = bytearray(data)
    damaged[60_000] ^= 255
    found = read(tmp_path / "a.wandb", bytes(damaged))
    assert found.rows == 6
    assert found.losses.records == 1


def test_a_damaged_file_header_loses_no_row(tmp_path):
    data = many_rows(20)
    found = read(tmp_path / "a.wandb", b"xxxxxxx" + data[7:])
    assert found.rows == 20
    assert "file header" in wandbfile.losses_text(found)


def test_what_is_no_wandb_file_is_an_error(tmp_path):
    with pytest.raises(HarnessError, match=r"a\.wandb holds no W&B record"):
        read(tmp_path / "a.wandb", b"step,loss\n1,2\n" * 100)
    with pytest.raises(HarnessError, match="cannot be read"):
        wandbfile.read(tmp_path / "absent.wandb")


def test_an_empty_file_is_a_run_without_rows(tmp_path):
    found = read(tmp_path / "run-abc.wandb", b"")
    assert (found.rows, found.id, found.losses.any) == (0, "abc", False)


def test_a_growing_file_is_read_on_at_every_size(tmp_path):
    data = many_rows()
    whole = read(tmp_path / "whole.wandb", data)
    path, previous = tmp_path / "a.wandb", None
    for size in [0, 3, 7, 50, *range(100, len(data), 7919), len(data)]:
        path.write_bytes(data[:size])
        previous = wandbfile.read(path, previous)
        assert steps(previous) == list(range(1, previous.rows + 1))
    assert previous.offset == whole.offset
    assert previous.last_number == whole.last_number
    assert not previous.losses.any
    assert {k: v.tolist() for k, v in previous.columns.items()} == {k: v.tolist() for k, v in whole.columns.items()}


def test_only_the_new_part_of_a_growing_file_is_parsed(tmp_path, monkeypatch):
    data = many_rows()
    path = tmp_path / "a.wandb"
    before = read(path, data[: len(data) // 2])
    parsed = []
    records = wandbfile.records
    monkeypatch.setattr(
        wandbfile, "records", lambda *args: (parsed.append(record) or record for record in records(*args))
    )
    path.write_bytes(data)
    after = wandbfile.read(path, before)
    assert after.rows == 700
    assert len(parsed) == 700 - before.rows


def test_a_metric_that_begins_or_is_nan_after_growth(tmp_path):
    first = [log.run("a"), log.history({"x": 1, "nan": math.nan})]
    more = [log.history({"y": 2, "nan": math.nan}), log.history({"nan": 3})]
    path = tmp_path / "a.wandb"
    found = read(path, log.file(first))
    path.write_bytes(log.file(first + more))
    found = wandbfile.read(path, found)
    nan = math.nan
    np.testing.assert_array_equal(found.columns["x"], [1, nan, nan])
    np.testing.assert_array_equal(found.columns["y"], [nan, 2, nan])
    np.testing.assert_array_equal(found.columns["nan"], [nan, nan, 3])
    assert found.nans["nan"].tolist() == [0, 1]


def test_a_replaced_file_is_read_from_its_start(tmp_path):
    path = tmp_path / "a.wandb"
    before = read(path, log.file([log.run("a"), *log.rows(1, 30, loss=1.0)]))
    path.write_bytes(log.file([log.run("a"), *log.rows(1, 60, loss=2.0)]))
    assert set(wandbfile.read(path, before).columns["loss"]) == {2.0}


@settings(max_examples=150)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_make_the_reader_raise_anything_else(data, framed):
    """Framed: the checksum holds, the content is rubbish. Otherwise all is rubbish after the header."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.wandb"
        bodies = [
            log.run("a"),
            data,
            log.message(2, data),
            log.message(3, data),
            log.message(17, data),
            log.history({"x": 1}),
        ]
        path.write_bytes(log.file(bodies) if framed else log.file(bodies[:1])[:7] + data)
        found = wandbfile.read(path)
        if framed:
            assert found.columns["x"][-1] == 1


def test_damage_at_the_end_is_not_taken_for_a_torn_end(tmp_path):
    data = many_rows(20)
    found = read(tmp_path / "a.wandb", data[:-1] + bytes([data[-1] ^ 1]))
    assert (found.losses.regions, found.losses.torn, found.rows) == (1, 0, 19)
    found = read(tmp_path / "a.wandb", data + b"\xff" * 50)
    assert (found.losses.regions, found.losses.bytes, found.losses.torn, found.rows) == (1, 50, 0, 20)
    found = read(tmp_path / "a.wandb", data[:-1])
    assert (found.losses.regions, found.rows) == (0, 19)
    assert found.losses.torn > 0


def test_damage_that_was_mended_meanwhile_is_read_again(tmp_path):
    """A block that is still zeros on a network disk, while later ones are there already."""
    data = many_rows()
    path = tmp_path / "a.wandb"
    early = bytearray(data[: 2 * log.BLOCK])
    early[20_000:25_000] = bytes(5_000)
    before = read(path, bytes(early))
    assert before.losses.any
    path.write_bytes(data)
    after = wandbfile.read(path, before)
    assert steps(after) == list(range(1, 701))
    assert not after.losses.any


def test_of_two_values_in_one_row_the_later_one_stays(tmp_path):
    twice = [log.message(1, log.item("x", value)) for value in (math.nan, 3)]
    path = log.write(tmp_path, "a", [log.message(2, b"".join(twice)), log.history({"_step": 5}, step=7)])
    found = wandbfile.read(path)
    np.testing.assert_array_equal(found.columns["x"], [3, math.nan])
    assert "x" not in found.nans
    np.testing.assert_array_equal(found.columns["_step"], [math.nan, 5])  # the item, not the record's own step
