"""The built-in model and its data on disk: made once, kept in a cache, shared by every run."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import files
from harness.errors import HarnessError
from harness.tasks.builtin.arithmetic import BENCHMARKS
from harness.tasks.builtin.identity import data_identity, model_identity

log = logging.getLogger(__name__)

DATA_FILES = ("train.parquet", *(f"{benchmark}.parquet" for benchmark in BENCHMARKS))
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja")


@dataclass(frozen=True, slots=True)
class Assets:
    """Where a built-in model and the files of its task lie."""

    model_path: Path
    train_file: Path
    eval_files: tuple[Path, ...]


def locate(cache: Path, model: str) -> Assets:
    """The paths, whether or not anything is there yet; the folders are named by the hash of what makes them."""
    data = cache / "task" / f"arithmetic-{_key(data_identity('arithmetic'))}"
    return Assets(
        cache / "models" / f"{model}-{_key(model_identity(model))}",
        data / DATA_FILES[0],
        tuple(data / name for name in DATA_FILES[1:]),
    )


def ensure(cache: Path, model: str) -> Assets:
    """Makes what is missing. Of two processes that ask at once one makes it and the other waits; a killed one leaves
    nothing but a temporary folder, which the next maker removes.

    Raises: HarnessError for an unknown model and a cache that cannot be written.
    """
    from harness.tasks.builtin import build

    assets = locate(cache, model)
    try:
        _made_once(assets.train_file.parent, DATA_FILES, build.write_data)
        _made_once(assets.model_path, MODEL_FILES, lambda folder: build.write_model(folder, model))
    except OSError as error:
        raise HarnessError(
            f"{error.filename or cache}: the built-in task cannot be made there ({error.strerror or error}); "
            "free space, get permission to write, or set HARNESS_CACHE to another folder"
        ) from error
    return assets


def _made_once(folder: Path, names: Sequence[str], make: Callable[[Path], None]) -> None:
    if _complete(folder, names):
        return
    with files.locked(folder.parent / f".{folder.name}.lock"):
        if _complete(folder, names):
            return
        for stale in folder.parent.glob(f".{folder.name}.*.tmp"):  # only the lock's holder makes, so its maker is gone
            shutil.rmtree(stale)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
        try:
            make(temporary)
            for file in temporary.iterdir():
                file.chmod(0o644)  # some writers leave 0600, and a cache may be shared by a group
                _flush(file)
            temporary.chmod(0o755)
            if folder.exists():
                log.warning("%s was damaged: made anew", folder)
                shutil.rmtree(folder)
            os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # not there any more, unless something above failed


def _complete(folder: Path, names: Sequence[str]) -> bool:
    return all((folder / name).is_file() for name in names)


def _flush(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _key(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
