"""The built-in model and its data on disk: made once, kept in a cache, shared by every run."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import files
from harness.task.identity import data_identity, model_identity

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Assets:
    """Where a built-in model and the files of its task lie."""

    model_path: Path
    train_file: Path
    eval_files: tuple[Path, ...]


def locate(cache: Path, model: str) -> Assets:
    """The paths, whether or not anything is there yet; the folders are named by the hash of what makes them."""
    from harness.task.arithmetic import BENCHMARKS

    data = cache / "task" / f"arithmetic-{_key(data_identity('arithmetic'))}"
    return Assets(
        cache / "models" / f"{model}-{_key(model_identity(model))}",
        data / "train.parquet",
        tuple(data / f"{name}.parquet" for name in BENCHMARKS),
    )


def ensure(cache: Path, model: str) -> Assets:
    """Makes what is missing. Two processes that ask at once make it once; a killed one leaves nothing behind but a
    temporary folder that the next one removes."""
    from harness.task import build

    assets = locate(cache, model)
    _made_once(assets.train_file.parent, build.write_data)
    _made_once(assets.model_path, lambda folder: build.write_model(folder, model))
    return assets


def _made_once(folder: Path, make: Callable[[Path], None]) -> None:
    if folder.is_dir():
        return
    with files.locked(folder.parent / f".{folder.name}.lock"):
        if folder.is_dir():
            return
        for stale in folder.parent.glob(f".{folder.name}.*.tmp"):
            shutil.rmtree(stale, ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
        try:
            make(temporary)
            temporary.chmod(0o755)
            os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _key(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
