from __future__ import annotations

import json

import pytest

from harness.trainer import main


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "does not exist"),
        ("{", "is damaged"),
        ('{"schema": 2}', "no spec of schema 1"),
        ('{"schema": 1, "id": "0123456789"}', "has no 'verl'"),
    ],
)
def test_a_bad_spec_is_one_line_and_exit_code_2(tmp_path, capsys, content, words):
    if content is not None:
        (tmp_path / "spec.json").write_text(content)
    assert main.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert error.count("\n") == 1


def test_a_good_spec_is_read(tmp_path):
    spec = {"schema": 1, "id": "0123456789", "verl": {}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert main.read_spec(tmp_path) == spec
