"""Parsed .wandb files as parquet, so that a file is parsed once and a growing one is read on from where it
stood."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.sources import wandbfile
from analysis.sources.framing import Losses
from analysis.sources.wandbfile import Fragment
from harness import files

_FORMAT = 2
"""Part of every key: raise it when what is stored changes, and old entries are never looked at again."""
_LOG = logging.getLogger(__name__)


def default_folder() -> Path:
    """$HARNESS_CACHE, or qae-harness below the user's cache folder."""
    if chosen := os.environ.get("HARNESS_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qae-harness"


def fragment(
    path: Path, folder: Path | None, read: Callable[[Path, Fragment | None], Fragment] = wandbfile.read
) -> Fragment:
    """The content of a log file, from the cache in `folder` while size and mtime are those of the entry.

    Of a file that has grown only the new part is parsed. Without a folder nothing is cached; a cache that
    cannot be read or written costs time, never a result.

    Args:
        read: the file's reader; it gets the path and the earlier reading, if any.

    Raises:
        HarnessError: as the reader does.
    """
    if folder is None:
        return read(path, None)
    place = entry(str(path.resolve()), folder)
    known = load(place, path)
    if known is not None:
        try:
            stat = path.stat()
        except OSError:
            stat = None  # let the reader say what is wrong with the file
        if stat is not None and (stat.st_size, stat.st_mtime_ns) == (known.size, known.mtime_ns):
            return known
    fresh = read(path, known)
    store(place, fresh)
    return fresh


def entry(name: str, folder: Path) -> Path:
    """Where what has this name (an absolute path, a W&B address) is cached."""
    key = hashlib.sha256(f"{_FORMAT}\n{name}".encode()).hexdigest()[:24]
    return folder / "fragments" / f"{key}.parquet"


def store(entry: Path, fragment: Fragment) -> None:
    """Writes one entry atomically: a column a metric, and all else as JSON in the file's metadata."""
    about: dict[str, Any] = {
        "size": fragment.size,
        "mtime_ns": fragment.mtime_ns,
        "offset": fragment.offset,
        "check": fragment.check,
        "last_number": fragment.last_number,
        "rows": fragment.rows,
        "meta": fragment.meta,
        "config": fragment.config,
        "summary": fragment.summary,
        "exit_code": fragment.exit_code,
        "losses": dataclasses.asdict(fragment.losses),
        "nans": {name: numbers.tolist() for name, numbers in fragment.nans.items()},
    }
    table = pa.table(dict(fragment.columns))
    table = table.replace_schema_metadata({b"fragment": json.dumps(about).encode()})
    try:
        with files.replacing(entry) as temporary:
            pq.write_table(table, temporary, compression="zstd", use_dictionary=False, write_statistics=False)
    except OSError as error:
        _LOG.warning("cache %s cannot be written (%s): reading goes on without", entry.parent, error)


def load(entry: Path, path: Path) -> Fragment | None:
    """Reads one entry, or None if there is none that can be used."""
    try:
        table = pq.read_table(entry, memory_map=True, use_threads=False)
        about = json.loads(table.schema.metadata[b"fragment"])
        columns = {name: table[name].to_numpy() for name in table.column_names}
        nans = {name: np.array(numbers, dtype=np.int64) for name, numbers in about.pop("nans").items()}
        return Fragment(path=path, columns=columns, nans=nans, losses=Losses(**about.pop("losses")), **about)
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        _LOG.warning("cache entry %s is damaged and ignored: %s", entry, str(error).partition("\n")[0])
        return None
