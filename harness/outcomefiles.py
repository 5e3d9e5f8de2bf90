"""Which outcome files of a run are whole, by their names and end marks, without reading them."""

from __future__ import annotations

import os
import re
from pathlib import Path

_STEP = re.compile(r"step_(\d+)\.parquet")
_MARK = b"PAR1"


def steps(folder: Path) -> set[int]:
    """Steps that have a complete parquet file (they are written atomically; the end mark tells a damaged copy)."""
    if not folder.is_dir():
        return set()
    found = set()
    for path in folder.iterdir():
        match = _STEP.fullmatch(path.name)
        if match and is_whole(path):
            found.add(int(match.group(1)))
    return found


def is_whole(path: Path) -> bool:
    """Whether there is a file that begins and ends as parquet does."""
    if not path.is_file() or path.stat().st_size < 2 * len(_MARK):
        return False
    with path.open("rb") as file:
        begins = file.read(len(_MARK)) == _MARK
        file.seek(-len(_MARK), os.SEEK_END)
        return begins and file.read(len(_MARK)) == _MARK
