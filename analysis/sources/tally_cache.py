"""Tallies kept beside the cache of the logs, so that a second report need not open thousands of outcome
files.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.run import Run
from analysis.sources import cache, outcomes, tally
from analysis.sources.tally import Tally
from harness import files

_FORMAT = 1
_LOG = logging.getLogger(__name__)

Stamp = list[list[object]]


def read(run: Run, folder: Path | None = None) -> Tally:
    """As `tally.read`, from the cache while name, size and mtime of every evaluation file are those of the
    entry.

    Args:
        folder: of the cache; None for the default one.

    Raises:
        HarnessError: as `tally.read`.
    """
    stamp = _stamp(run)
    if not stamp or run.folder is None:
        return Tally()
    entry = cache.entry(f"tally {run.folder.resolve()}", folder or cache.default_folder())
    known = _load(entry, stamp)
    if known is not None:
        return known
    found = tally.read(run)
    if found.steps and not found.notes:  # a file that could not be read may be whole the next time
        _store(entry, stamp, found)
    return found


def _stamp(run: Run) -> Stamp:
    found: Stamp = [[_FORMAT]]
    for _, path in outcomes.files(run, "eval"):
        try:
            stat = path.stat()
        except OSError:
            continue  # gone since it was listed: reading says so
        found.append([path.name, stat.st_size, stat.st_mtime_ns])
    return found if len(found) > 1 else []


def _store(entry: Path, stamp: Stamp, found: Tally) -> None:
    """One row a problem, two columns an evaluation; steps, scorers and what it was made of in the metadata."""
    columns: dict[str, object] = {
        "benchmark": [benchmark for benchmark, _ in found.problems],
        "problem": [problem for _, problem in found.problems],
    }
    for step, n, correct in zip(found.steps, found.n, found.correct, strict=True):
        columns |= {f"n at {step}": n, f"correct at {step}": correct}
    about = {"stamp": stamp, "steps": found.steps, "scorers": found.scorers}
    table = pa.table(columns).replace_schema_metadata({b"tally": json.dumps(about).encode()})
    try:
        with files.replacing(entry) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    except OSError as error:
        _LOG.warning("cache %s cannot be written (%s): reading goes on without", entry.parent, error)


def _load(entry: Path, stamp: Stamp) -> Tally | None:
    try:
        with pq.ParquetFile(entry) as file:
            about = json.loads(file.schema_arrow.metadata[b"tally"])
            if about["stamp"] != stamp:
                return None
            table = file.read(use_threads=False)
        steps = tuple(int(step) for step in about["steps"])
        return Tally(
            steps=steps,
            problems=tuple(zip(table["benchmark"].to_pylist(), table["problem"].to_pylist(), strict=True)),
            n=np.stack([table[f"n at {step}"].to_numpy() for step in steps]),
            correct=np.stack([table[f"correct at {step}"].to_numpy() for step in steps]),
            scorers=tuple(about["scorers"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        _LOG.warning("cache entry %s is damaged and ignored: %s", entry, str(error).partition("\n")[0])
        return None
