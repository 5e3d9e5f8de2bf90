"""A prepared set on disk: parquet in verl's format, with a description beside it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import files
from harness.errors import HarnessError
from harness.tasks.data.catalogue import Source
from harness.tasks.data.problem import Problem
from harness.tasks.data.prompt import wrap

CONTENT_KEY = b"harness.content"
"""Where the file's own metadata keeps the hash of its rows."""
DEFAULT_FOLDER = "data"


def folder(project: Path) -> Path:
    """HARNESS_DATA, or `data/` of the project."""
    chosen = os.environ.get("HARNESS_DATA")
    return Path(chosen).expanduser().resolve() if chosen else project / DEFAULT_FOLDER


def rows(source: Source, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """verl's rows (verl/utils/dataset/rl_dataset.py): prompt, data source, ground truth and a stable index."""
    return [
        {
            "data_source": source.data_source,
            "prompt": [{"role": "user", "content": wrap(problem.text)}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"split": source.split, "index": problem.id, "problem": problem.text},
        }
        for problem in problems
    ]


def digest(made: Sequence[dict[str, Any]]) -> str:
    """SHA-256 of rows, the same whichever version of parquet wrote them."""
    text = json.dumps(list(made), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, made: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """Writes rows and, beside them, a description as JSON; returns the content hash."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = digest(made)
    table = pa.Table.from_pylist(list(made)).replace_schema_metadata({CONTENT_KEY: content.encode()})
    with files.replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    files.write_json(path.with_suffix(".json"), {**about, "rows": len(made), "content": content})
    return content


def content(path: Path) -> str:
    """The content hash of a data file: that of its rows where we prepared it, of its bytes elsewhere.

    A file that another program has written anew has lost our mark, and its bytes count.
    """
    if path.suffix == ".parquet":
        marked = _mark(path)
        if marked is not None:
            return marked
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_prepared(path: Path) -> bool:
    """Whether a parquet file carries our mark: its content was checked when it was made."""
    return _mark(path) is not None


def _mark(path: Path) -> str | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return None
    found = metadata.get(CONTENT_KEY)
    return found.decode() if found else None


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a prepared file.

    Raises: HarnessError naming the command that prepares it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise HarnessError(f"{path} does not exist: run `harness data prepare {path.stem}`")
    try:
        return pq.read_table(path).to_pylist()
    except pa.ArrowException as error:
        raise HarnessError(f"{path} is damaged ({error}): run `harness data prepare {path.stem}` again") from None
