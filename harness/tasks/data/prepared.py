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
TRUTHS_KEY = b"harness.truths"
"""Where it says how the answers were stored."""
TRUTHS = "as given"
"""Today's way. Files without the mark are of versions that wrote `2x-y+3z+8=0` as `0` and `3R^2` as `3`."""
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
    table = pa.Table.from_pylist(list(made)).replace_schema_metadata(
        {CONTENT_KEY: content.encode(), TRUTHS_KEY: TRUTHS.encode()}
    )
    with files.replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    files.write_json(path.with_suffix(".json"), {**about, "rows": len(made), "content": content})
    return content


def content(path: Path) -> str:
    """The content hash of a data file: that of its rows where we prepared it, of its bytes elsewhere.

    A file that another program has written anew has lost our mark, and its bytes count. Raises: HarnessError for one
    that an earlier version prepared, whose answers may have been altered.
    """
    if path.suffix == ".parquet":
        refuse_altered(path)
        marked = _metadata(path)
        if CONTENT_KEY in marked:
            return marked[CONTENT_KEY].decode()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_prepared(path: Path) -> bool:
    """Whether a parquet file carries our mark: its content was checked when it was made."""
    return CONTENT_KEY in _metadata(path)


def is_outdated(path: Path) -> bool:
    """Whether an earlier version prepared it, which altered answers."""
    marked = _metadata(path) if path.suffix == ".parquet" else {}
    return CONTENT_KEY in marked and marked.get(TRUTHS_KEY) != TRUTHS.encode()


def _metadata(path: Path) -> dict[bytes, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return {}


def refuse_altered(path: Path) -> None:
    """Raises: HarnessError for a set that an earlier version prepared."""
    if not is_outdated(path):
        return
    about = path.with_suffix(".json")
    origin = files.read_json(about).get("from", "") if about.is_file() else ""
    given = f" --from {origin}" if origin and "://" not in origin else ""
    raise HarnessError(
        f"{path} was prepared by an earlier version, which altered answers (an equation lost its left side): "
        f"run `harness data prepare {path.stem}{given}` again; `harness score` then judges kept responses by them"
    )


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a prepared file.

    Raises: HarnessError naming the command that prepares it, also where an earlier version did.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise HarnessError(f"{path} does not exist: run `harness data prepare {path.stem}`")
    refuse_altered(path)
    try:
        return pq.read_table(path).to_pylist()
    except pa.ArrowException as error:
        raise HarnessError(f"{path} is damaged ({error}): run `harness data prepare {path.stem}` again") from None
