"""The harness's own run folders: spec, metrics and W&B files of the runs of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from analysis.run import Run, State
from analysis.sources import cache, jsonlog, local, rows, wandbfile
from harness import files
from harness.config import grid
from harness.errors import HarnessError, nearest
from harness.store.runs import NeverApplied, Store, ids_of

History = Literal["harness", "local"]
"""Where curves come from: metrics.jsonl, or the W&B files in the run folder."""
_STATES: Mapping[str, State] = {
    "done": "finished",
    "failed": "failed",
    "stopped": "crashed",
    "running": "running",
}


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """A sweep as it was last applied, with the runs that have a folder."""

    name: str
    runs: tuple[Run, ...]
    """In the order of the grid; one whose training has not logged yet has an empty history."""
    missing: tuple[str, ...] = ()
    """Labels of grid points without a run folder."""
    question: str = ""
    compare: Mapping[str, Any] = field(default_factory=dict)
    """The sweep file's `compare` node: what the report sets against what."""
    points: tuple[Mapping[str, Any], ...] = ()
    """id, label and overrides of every grid point; several points may share one run."""


def load_sweep(
    sweep: str | Sequence[str], root: Path, *, history: History = "harness", cached: Path | None = None
) -> Sweep:
    """The runs of an applied sweep, or of a list of run ids.

    Args:
        root: the store, `runs/` or $HARNESS_RUNS.
        history: where the curves come from; a run that lacks that log is read from the other one, with a
        note. cached: folder of the parquet cache, None for none.

    Raises:
        HarnessError: the sweep was never applied here, an id is unknown, or none of its runs has a folder.
    """
    store = Store(root)
    if isinstance(sweep, str):
        try:
            ids = list(ids_of(store, sweep))
        except NeverApplied as error:
            raise HarnessError(grid.unapplied(sweep, error.applied)) from None
        content = files.read_mapping(store.sweep_file(sweep))
        name = str(content.get("sweep", sweep))
    else:
        ids, content, name = [store.find(prefix) for prefix in sweep], {}, ""
    points = tuple(content.get("points", ()))
    labels = {point["id"]: str(point.get("label", point["id"])) for point in points}
    there = [id for id in ids if (root / id / "spec.json").exists()]
    if not there:
        raise HarnessError(f"sweep {name!r} has no run in {root} yet: start it with `harness sweep {name}`")
    runs = tuple(load_run(root / id, history=history, group=name or None, cached=cached) for id in there)
    missing = tuple(labels.get(id, id) for id in ids if id not in there)
    compare = content.get("compare")
    return Sweep(
        name, runs, missing, str(content.get("question", "")), compare if isinstance(compare, dict) else {}, points
    )


def load_store(root: Path, *, history: History = "harness", cached: Path | None = None) -> list[Run]:
    """Every run of a store; of a folder that lost its spec the id and a note. Raises: HarnessError where there is
    none."""
    ids = Store(root).ids()
    if not any((root / id / "spec.json").exists() for id in ids):
        raise HarnessError(f"no run in {root}: set HARNESS_RUNS to the store, or start a sweep first")
    return [
        load_run(root / id, history=history, cached=cached) if (root / id / "spec.json").exists() else _lost(root / id)
        for id in ids
    ]


def _lost(folder: Path) -> Run:
    note = "no spec.json: restore it, or remove the folder"
    return Run(id=folder.name, label=folder.name, source="harness", history=rows.empty(), folder=folder, notes=(note,))


def known(run: Run, root: Path) -> Run:
    """A W&B run with the state and the outcomes of its folder, where the store `root` made it: W&B calls a run
    finished that was asked to stop."""
    folder = root / run.id
    if not (folder / "spec.json").is_file():
        return run
    state, notes = _state(folder)
    return replace(run, state=state, folder=folder, notes=(*run.notes, *notes))


def load_run(
    folder: Path, *, history: History = "harness", group: str | None = None, cached: Path | None = None
) -> Run:
    """One run from its folder.

    The config is the spec's, with the resolved verl config at `verl` and what made it at `provenance`.

    Raises:
        HarnessError: the spec is absent or damaged. Damaged logs are noted, not raised.
    """
    try:
        spec = files.read_json(folder / "spec.json")
    except FileNotFoundError:
        raise HarnessError(f"{folder} is no run folder: it has no spec.json; {_neighbours(folder)}") from None
    if not isinstance(spec, dict) or not isinstance(spec.get("config"), dict):
        raise HarnessError(f"{folder / 'spec.json'} is damaged (no config): restore it, or remove the folder")
    provenance, verl = _mapping(spec, "provenance", folder), _mapping(spec, "verl", folder)
    _mapping(provenance, "versions", folder)
    config = {**spec["config"], "verl": verl, "provenance": provenance}
    state, notes = _state(folder)
    bare = Run(
        id=folder.name,
        label=str(spec.get("label", folder.name)),
        source=history,
        config=config,
        state=state,
        group=group,
        created=_time(provenance.get("created")),
        folder=folder,
        notes=notes,
        history=rows.empty(),
    )
    order: tuple[History, History] = ("harness", "local") if history == "harness" else ("local", "harness")
    for kind in order:
        found = _with_metrics(bare, cached) if kind == "harness" else _with_wandb(bare, cached)
        if found is not None:
            if kind != history:
                wanted = "metrics.jsonl" if history == "harness" else "W&B file"
                found = replace(found, notes=(*found.notes, f"no {wanted}: read from the other log"))
            return found
    return replace(bare, notes=(*bare.notes, "nothing was logged yet"))


def _mapping(spec: Mapping[str, Any], key: str, folder: Path) -> Mapping[str, Any]:
    found = spec.get(key) or {}
    if not isinstance(found, dict):
        raise HarnessError(f"{folder / 'spec.json'} is damaged ({key} is no mapping): restore it, or remove the folder")
    return found


def _with_metrics(bare: Run, cached: Path | None) -> Run | None:
    path = _folder(bare) / "metrics.jsonl"
    if not path.exists():
        return None
    try:
        fragment = cache.fragment(path, cached, jsonlog.read)
    except HarnessError as error:
        return replace(bare, notes=(*bare.notes, str(error)))
    stitched, notes = rows.stitch([jsonlog.logged(fragment)])
    history, nan_steps = rows.frame(stitched)
    lost = wandbfile.losses_text(fragment)
    torn = fragment.losses.torn and bare.state != "running"
    ending = f"{path.name}: ends within a line, {fragment.losses.torn} bytes are lost" if torn else None
    return replace(
        bare,
        history=history,
        nan_steps=nan_steps,
        files=(str(path),),
        summary=_last(stitched),
        notes=(*bare.notes, *(note for note in (lost, ending) if note), *notes),
        source="harness",
    )


def _with_wandb(bare: Run, cached: Path | None) -> Run | None:
    try:
        found = local.load(_folder(bare) / "wandb", cached=cached)
    except HarnessError:  # no W&B file: the caller looks for the other log and says so
        return None
    # A folder holds fragments of one run; others can only be strays that somebody copied in.
    mine = [run for run in found if run.id == bare.id]
    chosen = (mine or found)[0]
    strays = tuple(f"W&B run {run.id} in this folder is left out" for run in found if run is not chosen)
    return replace(
        bare,
        history=chosen.history,
        nan_steps=chosen.nan_steps,
        files=chosen.files,
        summary=chosen.summary,
        notes=(*bare.notes, *chosen.notes, *strays),
        tags=chosen.tags,
        source="local",
    )


def _folder(run: Run) -> Path:
    return run.folder or Path()


def _state(folder: Path) -> tuple[State, tuple[str, ...]]:
    try:
        return _STATES.get(Store(folder.parent).state(folder.name).kind, "unknown"), ()
    except HarnessError as error:
        return "unknown", (str(error),)


def _last(stitched: rows.Rows) -> dict[str, float]:
    """The last logged value of each metric."""
    summary = {}
    for name, values in stitched.columns.items():
        logged = stitched.logged(name)
        if logged.any():
            summary[name] = float(values[len(values) - 1 - logged[::-1].argmax()])
    return summary


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def _neighbours(folder: Path) -> str:
    others: Iterable[str] = Store(folder.parent).ids()
    return nearest(folder.name, others) or "its store has no run"
