"""A sweep's runs, whatever they are read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.comparison import arms
from analysis.comparison.arms import Against
from analysis.run import Run
from harness.errors import HarnessError


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """What a report is made of."""

    sweep: str
    runs: tuple[Run, ...]
    missing: tuple[str, ...] = ()
    """Labels of grid points without a run."""
    question: str = ""
    against: Against | None = None
    """What the sweep file says to compare with."""

    def baseline(self, asked: str | None = None) -> Against:
        """The arm to compare with: the one asked for, else the sweep file's where a filter left it, else mean.

        Raises:
            HarnessError: `asked` names no arm: a typing error must not compare with another one.
        """
        found = arms.group(self.runs)
        if asked:
            arms.require(found, asked)
            return asked
        return self.against if self.against and arms.pick(found, self.against) else arms.BASELINE


def load(sweep: str, source: str = "local", where: str = "") -> Loaded:
    """The runs of a sweep from any source.

    `local` and `harness` read the run folders of the store: curves from W&B's files or from the harness's own
    log, outcomes from the parquet files of the same folders. Other sources give all their runs, or those whose
    W&B group is the sweep; where the store holds a run of the same id, its outcome files are used too.
    `local:FOLDER` is such a source where the folder is no store.

    Raises:
        HarnessError: the sweep or source is unknown, or no run passes the filter.
    """
    from analysis.sources import cache, filters, loading, store

    chosen = filters.parse(where) if where else None
    kind, _, rest = source.partition(":")
    root = Path(rest).expanduser() if kind in ("local", "harness") and rest else loading.default_root()
    if kind == "harness" or (kind == "local" and not (rest and _foreign(root))):
        history: store.History = "local" if kind == "local" else "harness"
        found = store.load_sweep(sweep, root, history=history, cached=cache.default_folder())
        runs = filters.select(found.runs, chosen)
        against = found.compare.get("against")
        against = against if against is None or isinstance(against, Mapping) else str(against)
        return Loaded(
            sweep=found.name or sweep, runs=tuple(runs), missing=found.missing if chosen is None else (),
            question=found.question, against=against,
        )  # fmt: skip
    if kind == "wandb" and chosen is None:
        chosen = filters.parse(f"group={sweep}")
    runs = loading.load(source, chosen)
    if chosen is None:
        runs = [run for run in runs if run.group == sweep] or runs
    runs = [_with_folder(run, loading.default_root()) for run in runs]
    if not runs:
        raise HarnessError(f"{source} has no run of {sweep!r}: check the name, or select runs with --filter")
    return Loaded(sweep, tuple(runs))


def _foreign(root: Path) -> bool:
    """Whether a folder was not made by the harness: it holds neither sweeps nor specs."""
    return not (root / "_sweeps").is_dir() and next(root.glob("*/spec.json"), None) is None


def _with_folder(run: Run, root: Path) -> Run:
    folder = root / run.id
    return replace(run, folder=folder) if run.folder is None and (folder / "spec.json").is_file() else run
