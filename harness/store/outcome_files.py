"""Where the outcome files of a run lie, and which of them are whole, by their names and end marks."""

from __future__ import annotations

import os
import re
from pathlib import Path

_STEP = re.compile(r"step_(\d+)\.parquet")
_MARK = b"PAR1"


def path(run: Path, kind: str, step: int) -> Path:
    """The file of a kind (train, eval, tokens) at a step; `run` is the folder of a run or of an evaluation."""
    return run / "outcomes" / kind / f"step_{step:06d}.parquet"


def by_step(run: Path, kind: str) -> dict[int, Path]:
    """Step -> file, ascending; the files are not opened."""
    folder = run / "outcomes" / kind
    files = folder.iterdir() if folder.is_dir() else ()
    named = ((match, file) for file in files if (match := _STEP.fullmatch(file.name)))
    return dict(sorted((int(match[1]), file) for match, file in named))


def steps(run: Path, kind: str) -> set[int]:
    """Steps whose file is complete (they are written atomically; the end mark tells a damaged copy)."""
    return {step for step, file in by_step(run, kind).items() if is_whole(file)}


def is_whole(file: Path) -> bool:
    """Whether there is a file that begins and ends as parquet does."""
    if not file.is_file() or file.stat().st_size < 2 * len(_MARK):
        return False
    with file.open("rb") as opened:
        begins = opened.read(len(_MARK)) == _MARK
        opened.seek(-len(_MARK), os.SEEK_END)
        return begins and opened.read(len(_MARK)) == _MARK
