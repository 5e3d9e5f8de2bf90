"""Records of what was handed to SLURM: the intent before sbatch, the job ids after it.

    <root>/_slurm/<key>/submission.json, runs.txt, submission.sh, logs/     one job array
    <root>/<run>/slurm.json                                                 the latest submission of a run

A job works on its run only while slurm.json names the submission that started it. So a submission that slipped through
(its submitter was killed, two people were at it) never makes two jobs work on one run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import files
from harness.errors import HarnessError

FOLDER = "_slurm"
_GATE_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job array."""

    key: str
    """16 hexadecimal digits, random."""
    name: str
    """Job name, `<sweep>-<8 digits of the key>`: by it the job is found where the answer of sbatch was lost."""
    sweep: str
    runs: tuple[str, ...]
    """Run ids; the position is the array index."""
    user: str
    host: str
    time: float
    """Unix seconds of the intent."""
    array: str | None = None
    """SLURM's id of the array, None until sbatch has answered."""
    ended: str = ""
    """Why there is no array: `refused: ...` or `never arrived`."""

    @property
    def open(self) -> bool:
        """Whether its fate is unknown."""
        return self.array is None and not self.ended

    def job(self, index: int) -> str | None:
        """SLURM's id of one task, `1234_3`; None until sbatch has answered."""
        return None if self.array is None else f"{self.array}_{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A run's latest submission."""

    submission: str
    """Its key."""
    index: int
    """The run's place in the array."""
    withheld: str = ""
    """Why the job was cancelled by the harness itself, '' if it was not."""


def new_key() -> str:
    """A key that no other submission has."""
    return secrets.token_hex(8)


def job_name(sweep: str, key: str) -> str:
    """Name of the job: readable first, unique at the end."""
    readable = "".join(c if c.isalnum() or c in "-_." else "-" for c in sweep or "train")[:40]
    return f"{readable}-{key[:8]}"


def folder(root: Path, key: str) -> Path:
    """Folder of a submission."""
    return root / FOLDER / key


def write(root: Path, submission: Submission) -> None:
    """Writes the record and what the batch script reads: the run folders, one a line."""
    place = folder(root, submission.key)
    (place / "logs").mkdir(parents=True, exist_ok=True)
    runs = place / "runs.txt"
    if not runs.exists():
        files.write_text(runs, "".join(f"{root / run}\n" for run in submission.runs))
    files.write_json(place / "submission.json", dataclasses.asdict(submission))


def read(root: Path, key: str) -> Submission:
    """Reads a record. Raises: FileNotFoundError; HarnessError where it is damaged."""
    path = folder(root, key) / "submission.json"
    fields = files.read_json(path)
    try:
        return Submission(**{**fields, "runs": tuple(fields["runs"])})
    except (TypeError, KeyError):
        raise HarnessError(f"{path} is damaged: move its folder away; squeue shows whether its jobs run") from None


def undecided(root: Path) -> list[Submission]:
    """The submissions whose fate is unknown, oldest first."""
    found = []
    place = root / FOLDER
    for path in place.glob("*/open") if place.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):
            submission = read(root, path.parent.name)
            if submission.open:
                found.append(submission)
    return sorted(found, key=lambda s: s.time)


def open_(root: Path, submission: Submission) -> None:
    """Records the intent: the submission, and every run's link to it."""
    write(root, submission)
    (folder(root, submission.key) / "open").touch()  # so that nobody has to read the closed ones
    for index, run in enumerate(submission.runs):
        _write_link(root / run, Link(submission=submission.key, index=index))


def close(root: Path, submission: Submission, *, array: str | None = None, ended: str = "") -> Submission:
    """Records the end of the matter: the array's id, or why there is none; then the runs are free again."""
    closed = dataclasses.replace(submission, array=array, ended=ended)
    write(root, closed)
    for run in closed.runs if array is None else ():
        found = current(root / run)
        if found is not None and found.submission == closed.key:  # else a later one took the run over
            unlink(root / run)
    (folder(root, closed.key) / "open").unlink(missing_ok=True)
    return closed


def current(run_folder: Path) -> Link | None:
    """A run's latest submission, None without one. A damaged link counts as none: it is written anew."""
    try:
        fields: dict[str, Any] = files.read_json(run_folder / "slurm.json")
        return Link(**fields)
    except (FileNotFoundError, NotADirectoryError, HarnessError, TypeError):
        return None


def withhold(run_folder: Path, reason: str) -> None:
    """Notes at a run that its job was cancelled by the harness, and why."""
    found = current(run_folder)
    if found is not None:
        _write_link(run_folder, dataclasses.replace(found, withheld=reason))


def unlink(run_folder: Path) -> None:
    """No submission is the run's any more: a job of an earlier one that starts now ends at once."""
    (run_folder / "slurm.json").unlink(missing_ok=True)


def _write_link(run_folder: Path, link: Link) -> None:
    files.write_json(run_folder / "slurm.json", dataclasses.asdict(link))


@contextlib.contextmanager
def gate(root: Path) -> Iterator[int]:
    """One submitter at a time in a store; yields the lock's file descriptor.

    It is given to sbatch as well (flock belongs to the open file, not to the process): a submitter that is killed
    while its sbatch still works leaves the gate shut until that has ended. Raises: HarnessError after ten minutes.
    """
    path = root / FOLDER / ".gate"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    deadline = time.monotonic() + _GATE_SECONDS
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise HarnessError(
                        f"{path}: another process has been submitting for 10 minutes: end it, then try again"
                    ) from None
                time.sleep(0.1)
        yield handle
    finally:
        os.close(handle)
