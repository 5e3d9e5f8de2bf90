"""A copy of the code that queued jobs run from, so that editing the working tree changes nothing in them.

    <root>/_snapshots/<hash>/         the files; <hash> is made of their names, modes and contents
    <root>/_snapshots/<hash>.json     what it is: commit, which files were not committed, what was left out

Tracked, changed and untracked files are in it; files that git ignores and files that hold secrets are not.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import files, secret
from harness.errors import HarnessError
from harness.store import runs

log = logging.getLogger(__name__)

FOLDER = "_snapshots"
_LARGEST = 32 << 20
"""An untracked file above this size, bytes, is data rather than code: it is named, not copied."""
_NO_CODE = ("runs", "reports", "outputs", "multirun", "wandb", "node_modules")
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a checkout, relative to it."""

    tracked: tuple[str, ...]
    untracked: tuple[str, ...]
    git_sha: str | None
    changed: tuple[str, ...]
    """Tracked files that differ from the commit."""


def take(project: Path, root: Path) -> Path:
    """The snapshot of the checkout as it is now; made if there is none of this content.

    Raises: HarnessError where it cannot be written.
    """
    listing = list_files(project)
    contents, left_out = _read(project, listing)
    digest = _digest(contents)
    target = root / FOLDER / digest
    if not target.is_dir():
        try:
            _write(contents, target)
        except OSError as error:
            raise HarnessError(
                f"{target}: the code cannot be copied there ({error.strerror}); set HARNESS_RUNS to a folder with room"
            ) from None
    record = target.with_suffix(".json")
    if not record.exists():
        not_committed = [name for name in (*listing.changed, *listing.untracked) if name in contents]
        files.write_json(
            record,
            {"git_sha": listing.git_sha, "created": runs.now(), "not_committed": not_committed, "left_out": left_out,
             "files": {name: _hash(data) for name, (_, data) in contents.items()}},
        )  # fmt: skip
    for name, why in left_out.items():
        if name in listing.untracked and why != "ignored":
            log.warning("%s is not in the jobs' copy of the code: %s", name, why)
    return target


def list_files(project: Path) -> Listing:
    """What git knows of the checkout; without git every file that is no output."""
    tracked = _git(project, "ls-files", "-z")
    if tracked is None:
        return Listing(tuple(sorted(_walk(project))), (), None, ())
    untracked = _git(project, "ls-files", "--others", "--exclude-standard", "-z") or []
    sha = _git(project, "rev-parse", "HEAD")
    changed = _git(project, "diff", "HEAD", "--name-only", "-z") or []
    return Listing(tuple(tracked), tuple(untracked), sha[0].strip() if sha else None, tuple(changed))


def _read(project: Path, listing: Listing) -> tuple[dict[str, tuple[bool, bytes]], dict[str, str]]:
    """(name -> (executable, content with secrets masked), name -> why it was left out)."""
    secrets = [value.encode() for value in secret.values()]
    contents: dict[str, tuple[bool, bytes]] = {}
    left_out: dict[str, str] = {}
    for name in sorted({*listing.tracked, *listing.untracked}):
        path = project / name
        if secret.is_secret_file(name):
            left_out[name] = "its name says that it holds secrets"
            continue
        if not path.is_file():
            continue  # removed, or a submodule
        size = path.stat().st_size
        if name in listing.untracked and size > _LARGEST:
            left_out[name] = f"{size / 2**20:.0f} MiB and not tracked by git"
            continue
        data = path.read_bytes()
        for value in secrets:
            data = data.replace(value, secret.MASK.encode())
        contents[name] = (os.access(path, os.X_OK), data)
    return contents, left_out


def _digest(contents: dict[str, tuple[bool, bytes]]) -> str:
    whole = hashlib.sha256()
    for name, (executable, data) in sorted(contents.items()):
        whole.update(f"{name}\0{int(executable)}\0{_hash(data)}\n".encode())
    return whole.hexdigest()[:_DIGITS]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(contents: dict[str, tuple[bool, bytes]], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        place.chmod(0o755)
        for name, (executable, data) in contents.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o555 if executable else 0o444)  # nobody edits by mistake what jobs run from
        try:
            os.rename(place, target)
        except OSError:
            if not target.is_dir():  # another submitter was faster: its copy is the same
                raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _walk(project: Path) -> Iterator[str]:
    for folder, inner, names in os.walk(project):
        inner[:] = [d for d in inner if not d.startswith(".") and d not in _NO_CODE and d != "__pycache__"]
        for name in names:
            yield (Path(folder) / name).relative_to(project).as_posix()


def _git(project: Path, *arguments: str) -> Sequence[str] | None:
    """NUL-separated answers of git; None without git or a repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=project, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):  # also one that we may not run
        return None
    if done.returncode != 0:
        return None
    return [part for part in done.stdout.decode("utf-8", "surrogateescape").split("\0") if part]
