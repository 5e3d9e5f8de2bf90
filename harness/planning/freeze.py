"""From a composed run to its frozen spec: everything that an attempt needs, in one JSON file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import files, secret
from harness.config import reference
from harness.config.compose import Composed
from harness.config.grid import Sweep
from harness.config.settings import Settings
from harness.config.typed import to_plain
from harness.errors import HarnessError
from harness.planning.plan import Planned, todo
from harness.planning.provenance import Provenance
from harness.store.runs import SCHEMA, Store, now

TRAINER = "harness.trainer.main"
"""Module that trains a frozen run: `python -m MODULE RUN_DIR --attempt N`."""
_LEAST_FREE_GB = 1.0


def cache_folder(project: Path) -> Path:
    """HARNESS_CACHE, or `.cache/` of the project: warm-started models and their data, shared by all runs."""
    chosen = os.environ.get("HARNESS_CACHE")
    return Path(chosen).expanduser().resolve() if chosen else project / ".cache"


def spec(
    run: str,
    composed: Composed,
    signature: Mapping[str, Any],
    *,
    sweep: str,
    project: Path,
    provenance: Provenance,
    trainer: str = TRAINER,
) -> dict[str, Any]:
    """The frozen spec of one run, secrets masked."""
    settings = composed.settings
    cache = cache_folder(project)
    asked = reference.laid_over(composed.asked, _paths(settings, cache, project))
    frozen = {
        "schema": SCHEMA, "id": run, "label": settings.label, "sweep": sweep, "overrides": list(composed.overrides),
        "signature": signature, "config": to_plain(settings), "trainer": trainer,
        "prepare": _prepare(settings, cache) if trainer == TRAINER else [], "project": str(project),
        "verl": reference.merged(asked), "provenance": provenance.record,
    }  # fmt: skip
    return secret.redact_tree(frozen, secret.values())


def _prepare(settings: Settings, cache: Path) -> list[list[str]]:
    """Modules that make what the trainer reads: the built-in model and its data, made once and kept in the cache."""
    if settings.model.builtin is None and settings.data.builtin is None and settings.evaluation.builtin is None:
        return []
    return [["harness.tasks.builtin", str(cache), settings.model.builtin or "tiny"]]


def _paths(settings: Settings, cache: Path, project: Path) -> dict[str, Any]:
    """Where verl finds model, data and reward function of this run."""
    overlay: dict[str, Any] = {}
    if settings.model.builtin is not None:
        from harness.tasks.builtin.assets import locate

        assets = locate(cache, settings.model.builtin)
        overlay = {"actor_rollout_ref": {"model": {"path": str(assets.model_path)}}}
    else:
        path = settings.model.path or ""
        there = project / os.path.expanduser(path)
        overlay = {"actor_rollout_ref": {"model": {"path": str(there) if there.is_dir() else path}}}
    data: dict[str, Any] = {}
    if settings.data.builtin is not None:
        from harness.tasks.builtin.assets import locate

        data["train_files"] = [str(locate(cache, settings.model.builtin or "tiny").train_file)]
        from harness.tasks.builtin.reward import SCORER

        overlay["reward"] = {
            "custom_reward_function": {"path": "pkg://harness.tasks.builtin.reward", "name": "compute_score"}
        }
        overlay["harness"] = {"scorer": SCORER}
    else:
        data["train_files"] = [str(project / os.path.expanduser(f)) for f in settings.data.train_files]
    if settings.evaluation.builtin is not None:
        from harness.tasks.builtin.assets import locate

        data["val_files"] = [str(f) for f in locate(cache, settings.model.builtin or "tiny").eval_files]
    else:
        data["val_files"] = [str(project / os.path.expanduser(f)) for f in settings.evaluation.files]
    return {**overlay, "data": data}


def freeze(
    sweep: Sweep,
    entries: Sequence[Planned],
    store: Store,
    project: Path,
    provenance: Provenance,
    trainer: str = TRAINER,
    *,
    left_out: Sequence[str] = (),
) -> None:
    """Writes the specs of the runs that are to be started, and which runs the sweep consists of.

    `left_out` are runs of its earlier versions that go on all the same.
    Raises: HarnessError where the store cannot be written or has no room.
    """
    check_writable(store.root)
    for entry in todo(entries):
        frozen = spec(
            entry.id, entry.composed, entry.signature,
            sweep=sweep.name, project=project, provenance=provenance, trainer=trainer,
        )  # fmt: skip
        store.freeze(entry.id, frozen, provenance.diff)
    if not sweep.name:
        return  # runs of no sweep
    points = {e.id for e in entries}
    record = {
        "sweep": sweep.name, "question": sweep.question, "compare": dict(sweep.compare), "applied": now(),
        "points": [{"id": e.id, "label": e.label, "overrides": list(e.varied)} for e in entries],
        "left_out": [run for run in left_out if run not in points],
    }  # fmt: skip
    files.write_json(store.sweep_file(sweep.name), secret.redact_tree(record, secret.values()))


def check_writable(root: Path) -> None:
    """Raises: HarnessError where runs cannot be written, before anything is started."""
    remedy = "set HARNESS_RUNS to a folder with room, such as your scratch folder"
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe = root / ".probe"
        files.write_text(probe, "")
        probe.unlink(missing_ok=True)  # another submitter may have been faster
        free = shutil.disk_usage(root).free / 2**30
    except OSError as error:
        raise HarnessError(f"{root}: cannot be written ({error.strerror}); {remedy}") from None
    if free < _LEAST_FREE_GB:
        raise HarnessError(f"{root}: only {free:.2f} GiB free, runs need at least {_LEAST_FREE_GB:g}; {remedy}")
