"""Which checkpoint a run can resume from, and which ones can go.

verl writes a checkpoint's files, then `latest_checkpointed_iteration.txt` (not atomically), and removes old
checkpoints before that. We seal each checkpoint with a file that lists its sizes, so that a kill or a full disk at any
moment leaves at least one that is known to be whole, and prune only afterwards.
"""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

from harness.errors import HarnessError
from harness.files import locked, read_json, write_json, write_text
from harness.store import retention

logger = logging.getLogger(__name__)

TRACKER = "latest_checkpointed_iteration.txt"
SEAL = "sealed.json"


def folder(root: Path, step: int) -> Path:
    """Where verl keeps the checkpoint of a step."""
    return root / f"global_step_{step}"


def steps(root: Path) -> list[int]:
    """Steps that have a folder, whole or not, ascending."""
    found = (re.fullmatch(r"global_step_(\d+)", path.name) for path in root.glob("global_step_*") if path.is_dir())
    return sorted(int(match[1]) for match in found if match)


def seal(root: Path, step: int) -> None:
    """Declares a checkpoint whole: every file that is there now, with its size."""
    place = folder(root, step)
    sizes = {str(path.relative_to(place)): path.stat().st_size for path in sorted(place.rglob("*")) if path.is_file()}
    sizes.pop(SEAL, None)
    write_json(place / SEAL, {"step": step, "sizes": sizes})


def is_sealed(root: Path, step: int) -> bool:
    """Whether a checkpoint was declared whole and still has those files with those sizes."""
    place = folder(root, step)
    try:
        sizes = read_json(place / SEAL)["sizes"]
        return all((place / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, HarnessError, KeyError, TypeError):
        return False


def tracked(root: Path) -> int | None:
    """The step that verl's tracker names; None without a readable tracker."""
    try:
        return int((root / TRACKER).read_text())
    except (OSError, ValueError):
        return None


def repair(root: Path) -> int | None:
    """Points verl's tracker at the newest whole checkpoint, so that `trainer.resume_mode=auto` resumes from it.

    A checkpoint without a seal counts only where the tracker names it and nothing is sealed: stock verl made it.

    Returns: its step, or None if training has to start from the beginning (the tracker is gone then).
    """
    whole = [step for step in steps(root) if is_sealed(root, step)]
    named = tracked(root)
    if not whole and named is not None and (folder(root, named) / "data.pt").exists() and not _has_seal(root, named):
        whole = [named]
    if not whole:
        (root / TRACKER).unlink(missing_ok=True)
        return None
    if named != whole[-1]:
        logger.warning("%s names %s, resuming from the newest whole checkpoint %d", TRACKER, named, whole[-1])
        write_text(root / TRACKER, str(whole[-1]))
    return whole[-1]


def prune(root: Path, keep: int | None, policy: retention.Policy | None = None) -> None:
    """Removes the oldest checkpoints beyond `keep`, and unsealed ones older than the newest sealed one.

    One that an evaluation needs stays.

    Args:
        keep: how many whole ones stay; None or 0 keeps all of those.
        policy: what stays beside the last ones; the run's folder, with its scores, is the parent of `root`.
    """
    whole = [step for step in steps(root) if is_sealed(root, step)]
    if not whole:
        return
    gone = [step for step in steps(root) if step < whole[-1] and step not in whole]
    if keep:
        stay = retention.also(root.parent, whole, policy) if policy else set()
        gone += [step for step in whole[:-keep] if step not in stay]
    with locked(root.parent / ".lock"):  # an evaluation that is being asked for sees the seal, or we see the wish
        needed = retention.wanted(root.parent)
        gone = [step for step in gone if step not in needed]
        for step in gone:
            # The seal goes first: a checkpoint half removed must not look whole.
            (folder(root, step) / SEAL).unlink(missing_ok=True)
    for step in gone:
        shutil.rmtree(folder(root, step), ignore_errors=True)


def _has_seal(root: Path, step: int) -> bool:
    return (folder(root, step) / SEAL).exists()
