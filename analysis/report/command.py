"""The verb `report`: from a sweep's name to its page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis import arms
from analysis.run import Run
from harness.errors import HarnessError, nearest


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """What a report is made of."""

    sweep: str
    runs: tuple[Run, ...]
    missing: tuple[str, ...] = ()
    """Labels of grid points without a run."""
    question: str = ""
    against: str | None = None
    """What the sweep file says to compare with."""


def add(verb: argparse.ArgumentParser) -> None:
    """The options of `report` beside those of the source."""
    verb.add_argument("sweep", metavar="SWEEP", help="a sweep of sweeps/, or a name for the runs that --filter selects")
    verb.add_argument("--against", metavar="ARM", help="the arm to compare with (default: the sweep's, or mean)")
    verb.add_argument("--out", metavar="FOLDER", help="where to write (default: reports/SWEEP)")
    verb.add_argument("--no-figures", action="store_true", help="leave out the PDF, SVG and PNG files")
    verb.set_defaults(act=act)


def act(options: argparse.Namespace) -> int:
    """Loads the runs, writes the page and prints its path."""
    from analysis.report import write

    loaded = load(options.sweep, options.source, options.filter)
    if options.against:
        _known(options.against, loaded.runs)
    path = write(
        loaded.sweep, loaded.runs, Path(options.out) if options.out else default_folder(loaded.sweep),
        against=options.against or loaded.against or "mean", missing=loaded.missing, question=loaded.question,
        figures=not options.no_figures,
    )  # fmt: skip
    sys.stdout.write(f"{path}\n")
    return 0


def load(sweep: str, source: str = "local", where: str = "") -> Loaded:
    """The runs of a sweep from any source.

    `local` and `harness` read the run folders of the store: curves from W&B's files or from the harness's own
    log, outcomes from the parquet files of the same folders. `wandb:ENTITY/PROJECT` takes the runs whose
    group is the sweep; where the store holds a run of the same id, its outcome files are used too.

    Raises:
        HarnessError: the sweep or source is unknown, or no run passes the filter.
    """
    from analysis.sources import cache, filters, loading, store

    chosen = filters.parse(where) if where else None
    kind, _, rest = source.partition(":")
    root = Path(rest).expanduser() if kind in ("local", "harness") and rest else loading.default_root()
    if kind in ("local", "harness"):
        history: store.History = "local" if kind == "local" else "harness"
        found = store.load_sweep(sweep, root, history=history, cached=cache.default_folder())
        runs = filters.select(found.runs, chosen)
        against = found.compare.get("against")
        return Loaded(
            sweep=found.name or sweep, runs=tuple(runs), missing=found.missing if chosen is None else (),
            question=found.question, against=None if against is None else str(against),
        )  # fmt: skip
    if kind == "wandb" and chosen is None:
        chosen = filters.parse(f"group={sweep}")
    runs = [_with_folder(run, root) for run in loading.load(source, chosen)]
    if not runs:
        raise HarnessError(f"{source} has no run of {sweep!r}: check the name, or select runs with --filter")
    return Loaded(sweep, tuple(runs))


def default_folder(sweep: str) -> Path:
    """$HARNESS_REPORTS/<sweep>, or reports/<sweep> of the working folder."""
    return Path(os.environ.get("HARNESS_REPORTS") or "reports").expanduser() / sweep


def _known(against: str, runs: Sequence[Run]) -> None:
    """Raises: HarnessError where `--against` names no arm: a typing error must not compare with another arm.
    """
    found = arms.group(runs)
    if arms.pick(found, against) is None:
        hint = nearest(against, [arm.label for arm in found] + [str(r.get("baseline.name", None)) for r in runs])
        raise HarnessError(f"--against {against!r}: no such arm; {hint}")


def _with_folder(run: Run, root: Path) -> Run:
    folder = root / run.id
    return replace(run, folder=folder) if run.folder is None and (folder / "spec.json").is_file() else run
