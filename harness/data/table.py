"""Rows of a data file in any of the usual formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

FORMATS = (".parquet", ".jsonl", ".json", ".csv")


def read(path: Path) -> list[dict[str, Any]]:
    """All rows of a file, nested values as Python objects.

    Raises: HarnessError naming the file where it is absent, damaged or of another format.
    """
    if not path.is_file():
        raise HarnessError(f"{path}: no such file")
    if path.suffix not in FORMATS:
        raise HarnessError(f"{path}: format {path.suffix or 'without a name'}: give one of {', '.join(FORMATS)}")
    try:
        rows = _READERS[path.suffix](path)
    except (ValueError, OSError, KeyError) as error:
        raise HarnessError(f"{path} cannot be read as {path.suffix}: {' '.join(str(error).split())[:200]}") from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise HarnessError(f"{path} holds no rows: expected one problem a row")
    return rows


def _parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pylist()


def _jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _json(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(content, dict):  # {"data": [...]}, or one object
        lists = [value for value in content.values() if isinstance(value, list)]
        return lists[0] if len(lists) == 1 else [content]
    return content


def _csv(path: Path) -> list[dict[str, Any]]:
    import csv

    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


_READERS = {".parquet": _parquet, ".jsonl": _jsonl, ".json": _json, ".csv": _csv}
