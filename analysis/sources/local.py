"""W&B run folders on disk, offline and online, without the SDK and without an account."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from analysis import aliases
from analysis.run import Run, State
from analysis.sources import cache, rows, wandbfile
from analysis.sources.framing import Losses
from analysis.sources.rows import Rows
from analysis.sources.wandbfile import Fragment
from harness.errors import HarnessError

STEP = rows.STEP
_LOG = logging.getLogger(__name__)
_ALIVE = 600.0
"""A file without an exit record that was written to in the last so many seconds belongs to a running run:
the SDK writes at least every 15 s while rows come, and a training step can take minutes."""
# Folders of a run that hold many files and never a .wandb file.
_RUN_FOLDER = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(?P<id>.+)")
_PRUNED = {"checkpoints", "outcomes", "attempts", "files", "logs", "__pycache__", ".git", ".venv"}


def discover(root: Path) -> Iterator[Path]:
    """Every .wandb file below a folder (or the file itself), in the order of the names; of a run folder that lacks its
    file the path that it should have.

    Links are not followed: `latest-run` would double a run.
    """
    if root.is_file():
        yield root
        return
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if name not in _PRUNED)
        found = [Path(folder, name) for name in sorted(names) if name.endswith(".wandb")]
        if not found and (run := _RUN_FOLDER.fullmatch(Path(folder).name)):
            found = [Path(folder, f"run-{run['id']}.wandb")]
        yield from found


def load(root: Path, *, cached: Path | None = None, now: float | None = None) -> list[Run]:
    """The runs whose W&B files are below `root`, oldest first; fragments of a resumed run are one.

    Args:
        cached: folder of the parquet cache (`cache.default_folder()`), None for none.
        now: unix seconds, to tell a running run from a crashed one.

    Raises:
        HarnessError: there is no such folder, or no .wandb file in it. A destroyed or absent file raises nothing:
            its run comes without history and with a note.
    """
    if not root.exists():
        raise HarnessError(f"folder {str(root)!r} does not exist: name one that holds W&B run folders")
    paths = list(discover(root))
    if not any(path.exists() for path in paths):
        raise HarnessError(f"no .wandb file below {root}: name the folder that holds wandb/ or offline-run-*")
    return assemble((read(path, cached) for path in paths), now=now)


def read(path: Path, cached: Path | None = None) -> Fragment:
    """One .wandb file; of one that is destroyed or absent a fragment without rows."""
    size = mtime = 0
    losses = Losses()
    try:
        return cache.fragment(path, cached)
    except HarnessError as error:
        if path.exists():
            _LOG.warning("%s", error)
            size = path.stat().st_size
            losses = Losses(regions=1, bytes=size, header=True)
        elif path.parent.exists():
            mtime = path.parent.stat().st_mtime_ns
        return Fragment(
            path=path,
            size=size,
            mtime_ns=mtime,
            offset=0,
            check=0,
            last_number=0,
            rows=0,
            columns={},
            nans={},
            losses=losses,
        )


def assemble(fragments: Iterable[Fragment], *, now: float | None = None) -> list[Run]:
    """One `Run` per entity, project and id."""
    groups: dict[tuple[str, str, str], list[Fragment]] = {}
    nameless: list[Fragment] = []
    for fragment in fragments:
        if "id" in fragment.meta:
            key = (fragment.meta.get("entity", ""), fragment.meta.get("project", ""), fragment.id)
            groups.setdefault(key, []).append(fragment)
        else:
            nameless.append(fragment)
    for fragment in nameless:  # the record that names the run is lost: its id is in the file's name
        homes = [key for key in groups if key[2] == fragment.id]
        groups.setdefault(homes[0] if len(homes) == 1 else ("", "", fragment.id), []).append(fragment)
    moment = time.time() if now is None else now
    ordered = sorted((sorted(group, key=_age) for group in groups.values()), key=lambda group: _age(group[0]))
    return [_run(group, moment) for group in ordered]


def _age(fragment: Fragment) -> tuple[float, str]:
    # Folder names begin with the time, so they order what lost its start record, and starts within one
    # second.
    return fragment.meta.get("started", fragment.mtime_ns / 1e9), str(fragment.path)


def _run(fragments: Sequence[Fragment], now: float) -> Run:
    first, last = fragments[0], fragments[-1]
    named = next((fragment for fragment in reversed(fragments) if fragment.meta), last)
    axis = step_axis(fragments)
    parts, notes = [], []
    for fragment in fragments:
        part, lost = on_axis(fragment, axis)
        parts.append(part)
        absent = None if fragment.size or fragment.path.exists() else f"{fragment.path.parent.name} has no .wandb file"
        notes += [note for note in (absent, wandbfile.losses_text(fragment), lost) if note]
    stitched, more = rows.stitch([rows.concatenate(parts)], axis)
    history, nan_steps = rows.frame(stitched)
    state = _state(last, now)
    if last.losses.torn and state != "running":
        notes.append(f"{last.path.name}: ends within a record, {last.losses.torn} bytes are lost")
    if axis != STEP and len(history):
        notes.append(f"no {STEP} in the log: the step is {axis}")
    config: dict[str, object] = {}
    summary: dict[str, object] = {}
    for fragment in fragments:
        config.update(fragment.config)
        summary.update(fragment.summary)
    for tree in (config, summary):
        tree.pop("_wandb", None)  # the SDK's own notes
    started = first.meta.get("started")
    return Run(
        id=named.id,
        label=named.meta.get("name") or named.id,
        source="local",
        history=history,
        config=config,
        summary=summary,
        state=state,
        group=named.meta.get("group"),
        tags=tuple(named.meta.get("tags", ())),
        created=datetime.fromtimestamp(started, UTC) if started else None,
        folder=last.path.parent,
        notes=(*notes, *more),
        nan_steps=nan_steps,
        files=tuple(str(fragment.path) for fragment in fragments),
    )


def _state(last: Fragment, now: float) -> State:
    if last.exit_code is not None:
        return "finished" if last.exit_code == 0 else "failed"
    if not last.rows and not last.meta:
        return "unknown"
    return "running" if now - last.mtime_ns / 1e9 < _ALIVE else "crashed"


def step_axis(fragments: Iterable[Fragment]) -> str:
    """The metric that counts training steps: verl's, else one that `define_metric` named, else W&B's own
    `_step`.

    `_step` counts calls of `log`, and `wandb sync` shifts it in a resumed run: it is the last resort.
    """
    fragments = list(fragments)
    logged = {name for fragment in fragments for name in fragment.columns}
    defined = [name for fragment in fragments for name in fragment.meta.get("step_metrics", ())]
    known = aliases.resolve(STEP, logged)
    return known or next((name for name in defined if name in logged), rows.OWN_STEP)


def steps_on(fragment: Fragment, axis: str) -> np.ndarray:
    """(rows,) float64: the training step of each of a fragment's rows, NaN or no possible step where it has none.

    A row without the axis metric (verl logs the evaluation before training so) is placed by its `_step` beside the
    nearest earlier row that has both. Where the axis goes back after it, it is the evaluation with which a resumed run
    began, and goes beside the next one, as it does where there is no earlier one.
    """
    steps = fragment.columns.get(axis)
    if steps is None:
        steps = np.full(fragment.rows, np.nan)
    own = fragment.columns.get("_step")
    if own is not None and axis != "_step":
        shift = steps - own
        known = np.flatnonzero(np.isfinite(shift))
        if len(known):
            place = np.searchsorted(known, np.arange(fragment.rows), side="right") - 1
            earlier, later = known[np.maximum(place, 0)], known[np.minimum(place + 1, len(known) - 1)]
            nearest = np.where(steps[later] < steps[earlier], later, earlier)
            steps = np.where(np.isfinite(steps), steps, own + shift[nearest])
        else:
            steps = own
    return steps


def on_axis(fragment: Fragment, axis: str) -> tuple[Rows, str | None]:
    """A fragment's rows on the training step, and a note on rows that have none."""
    steps = steps_on(fragment, axis)
    placed = np.flatnonzero(np.abs(steps) <= 2**53)  # neither NaN nor a number beyond what a step can be
    columns = {name: values for name, values in fragment.columns.items() if name != "_step"}
    everything = Rows(np.full(fragment.rows, rows.NO_STEP), columns, fragment.nans)
    found = everything if len(placed) == fragment.rows else everything.take(placed)
    lost = fragment.rows - len(placed)
    note = f"{fragment.path.name}: {lost} rows have no step and are left out" if lost else None
    return Rows(steps[placed].astype(np.int64), found.columns, found.nans), note
