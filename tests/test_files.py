from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from harness import files
from harness.errors import HarnessError


def test_json_comes_back(tmp_path):
    path = tmp_path / "deep" / "a.json"
    files.write_json(path, {"K": 0.4, "text": "ä"})
    assert files.read_json(path) == {"K": 0.4, "text": "ä"}


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, {"old": 1})
    with pytest.raises(TypeError):
        files.write_json(path, {"new": object()})
    with pytest.raises(ZeroDivisionError), files.replacing(path) as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert files.read_json(path) == {"old": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_damage_is_named(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text('{"half": ')
    with pytest.raises(HarnessError, match=r"spec\.json is damaged .*restore it, or move its folder away"):
        files.read_json(path)


def test_a_torn_last_line_spoils_only_itself(tmp_path):
    path = tmp_path / "events.jsonl"
    files.append_json(path, {"n": 1})
    with path.open("a") as file:
        file.write('{"n": 2, "torn')
    files.append_json(path, {"n": 3})
    assert files.read_json_lines(path) == ([{"n": 1}, {"n": 3}], 1)
    assert files.read_json_lines(tmp_path / "absent") == ([], 0)


def test_a_writer_killed_at_any_moment_leaves_whole_files(tmp_path):
    code = (
        "import sys; from pathlib import Path; from harness import files\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    files.write_json(Path(sys.argv[1]) / 'a.json', {'n': n, 'load': 'x' * 100_000, 'again': n})\n"
        "    files.append_json(Path(sys.argv[1]) / 'b.jsonl', {'n': n, 'load': 'y' * 10_000})\n"
    )
    seen = 0
    for round_ in range(6):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        while len(files.read_json_lines(tmp_path / "b.jsonl")[0]) <= seen:
            time.sleep(0.01)
        time.sleep(0.02 * round_)
        process.send_signal(signal.SIGKILL)
        process.wait()
        content = files.read_json(tmp_path / "a.json")
        assert content["n"] == content["again"]
        rows, torn = files.read_json_lines(tmp_path / "b.jsonl")
        assert torn <= round_ + 1
        assert len(rows) > seen
        seen = len(rows)


@pytest.mark.parametrize("content", ["[1]", "null", "7", '"x"', "[" * 100_000 + "]" * 100_000])
def test_a_record_that_is_no_object_is_damaged(tmp_path, content):
    (tmp_path / "spec.json").write_text(content)
    with pytest.raises(HarnessError, match=r"spec\.json is damaged .*restore it, or move its folder away"):
        files.read_mapping(tmp_path / "spec.json")


def test_half_a_surrogate_pair_is_written_and_read_back(tmp_path):
    files.write_json(tmp_path / "a.json", {"ü": "x\udcff"})
    files.append_json(tmp_path / "b.jsonl", {"ü": "x\udcff"})
    assert files.read_json(tmp_path / "a.json") == {"ü": "x\udcff"}
    assert files.read_json_lines(tmp_path / "b.jsonl") == ([{"ü": "x\udcff"}], 0)


def test_a_failed_write_names_its_file(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError) as raised:
        files.write_text(tmp_path / "x.json", "x")
    assert raised.value.filename == str(tmp_path / "x.json")
    monkeypatch.setattr("os.write", full)
    with pytest.raises(OSError) as raised:
        files.append_json(tmp_path / "x.jsonl", {})
    assert raised.value.filename == str(tmp_path / "x.jsonl")
