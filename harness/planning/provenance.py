"""Where a run's code came from: commit, uncommitted work, versions."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import secret
from harness.store import runs

PACKAGES = (
    "torch", "verl", "ray", "transformers", "vllm", "TransferQueue", "tensordict", "numpy", "pandas", "hydra-core",
    "wandb", "optuna", "submitit", "qae-harness",
)  # fmt: skip
_LARGEST = 1 << 20
"""An untracked file above this size, bytes, is named but not copied."""
_DIFF = ("diff", "--no-renames", "--no-ext-diff", "--no-color")
"""A patch whatever the user's git is set to. A rename would show a secret file under a name that does not say so."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a spec records about the code, and the uncommitted work as a patch."""

    record: dict[str, Any]
    diff: str


@functools.cache
def collect(project: Path) -> Provenance:
    """Commit, patch and versions of this checkout, secrets masked; cached, a sweep asks once."""
    sha = _git(project, "rev-parse", "HEAD").strip()
    diff = _uncommitted(project) if sha else ""
    record = {
        "git_sha": sha or None,
        "git_dirty": bool(diff),
        "created": runs.now(),
        "versions": {"python": platform.python_version(), **_versions()},
    }
    return Provenance(record, secret.redact_source(diff, secret.values()))


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _uncommitted(project: Path) -> str:
    """A patch of tracked changes and of untracked files that git does not ignore."""
    changed = _git(project, "diff", "HEAD", "--name-only", "--no-renames", "-z").split("\0")
    hidden = [f":(exclude,literal){name}" for name in changed if name and secret.is_secret_file(name)]
    parts = [_git(project, *_DIFF, "HEAD", "--", ".", *hidden)]
    for name in _git(project, "ls-files", "--others", "--exclude-standard", "-z").split("\0"):
        path = project / name
        if not name or not path.is_file():
            continue
        if secret.is_secret_file(name):
            parts.append(f"# {name}: not copied, its name says that it holds secrets\n")
        elif path.stat().st_size > _LARGEST:
            parts.append(f"# {name}: not copied, {path.stat().st_size} bytes\n")
        else:
            # --no-index exits with 1 because the files differ, which is the point
            parts.append(_git(project, *_DIFF, "--no-index", "--", "/dev/null", name, ok=(0, 1)))
    return "".join(parts)


def _git(project: Path, *arguments: str, ok: Sequence[int] = (0,)) -> str:
    """Output of git, empty where there is no git or no repository: a run from an unpacked archive is allowed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=project, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):  # also one that we may not run
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode in ok else ""
