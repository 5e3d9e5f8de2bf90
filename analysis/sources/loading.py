"""From what a person types as a source to runs."""

from __future__ import annotations

import os
from pathlib import Path

from analysis.run import Run
from analysis.sources import cache, filters
from analysis.sources.filters import Filter
from harness.errors import HarnessError, nearest

KINDS = ("local", "harness", "wandb", "csv", "console")
HELP = (
    "local[:FOLDER] (W&B run folders), harness[:ROOT] (the store's own metrics), wandb:ENTITY/PROJECT, csv:FILE, "
    "console:FILE"
)


def default_root() -> Path:
    """$HARNESS_RUNS, or runs/ of the working folder."""
    return Path(os.environ.get("HARNESS_RUNS") or "runs").expanduser()


def load(source: str, where: Filter | None = None, *, cached: Path | None = None) -> list[Run]:
    """The runs of a source, filtered.

    Args:
        source: `local`, `local:FOLDER`, `harness`, `harness:ROOT`, `wandb:ENTITY/PROJECT`, `csv:FILE`,
        `console:FILE`. where: a filter as `filters.parse` gives it.
        cached: folder of the parquet cache; None for the default one.

    Raises:
        HarnessError: the source is not understood, cannot be read, or no run of it passes the filter.
    """
    kind, _, rest = source.partition(":")
    if kind not in KINDS:
        raise HarnessError(f"source {source!r}: {nearest(kind, KINDS)}; one of {HELP}")
    folder = cached or cache.default_folder()
    if "\0" in rest:
        raise HarnessError(f"source {source!r}: no path holds a NUL character")
    if kind in ("csv", "console", "wandb") and not rest:
        raise HarnessError(f"source {source!r} names nothing to read: {HELP}")
    # Each reader is imported when it is asked for: wandb alone takes seconds.
    if kind == "local":
        from analysis.sources import local, store

        root = Path(rest).expanduser() if rest else default_root()
        runs = [store.known(run, root) for run in local.load(root, cached=folder)]
    elif kind == "harness":
        from analysis.sources import store

        runs = store.load_store(Path(rest).expanduser() if rest else default_root(), cached=folder)
    elif kind == "wandb":
        from analysis.sources import api

        runs = api.load(rest, where, cached=folder)
    elif kind == "csv":
        from analysis.sources import csvlog

        runs = csvlog.load(Path(rest).expanduser())
    else:
        from analysis.sources import console

        runs = console.load(Path(rest).expanduser())
    return filters.select(runs, where)
