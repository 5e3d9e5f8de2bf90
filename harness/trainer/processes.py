"""Finding and ending what is left of an attempt, by the marker that each of its processes inherits.

Ray's workers leave the process group of the trainer, so that a group's signal does not reach them.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from harness.trainer.environment import MARKER


def marked(attempt_folder: Path, exclude: frozenset[int] = frozenset()) -> list[int]:
    """Process ids, ascending, whose environment carries the attempt's marker; only processes that we may inspect.

    Args:
        attempt_folder: absolute path of runs/<id>/attempts/<n>.
        exclude: process ids left out, such as our own.
    """
    wanted = f"{MARKER}={attempt_folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in exclude:
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            # The state is the first field behind the command's name, which may itself hold blanks and brackets.
            dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except (OSError, ValueError):
            continue  # it ended meanwhile, or belongs to somebody else
        if wanted in variables and not dead:
            found.append(int(entry.name))
    return sorted(found)


def end(attempt_folder: Path, grace: float = 10.0, exclude: frozenset[int] = frozenset()) -> list[int]:
    """Asks what is left to end, waits, and kills the rest.

    Args:
        attempt_folder: as in `marked`.
        grace: seconds between SIGTERM and SIGKILL.
        exclude: process ids left alone.

    Returns: the processes that had to be asked.
    """
    asked = marked(attempt_folder, exclude)
    _signal(asked, signal.SIGTERM)
    if not wait(attempt_folder, grace, exclude):
        _signal(marked(attempt_folder, exclude), signal.SIGKILL)
        wait(attempt_folder, grace, exclude)
    return asked


def wait(attempt_folder: Path, seconds: float, exclude: frozenset[int] = frozenset()) -> bool:
    """Waits until nothing is left; False where something is after `seconds`."""
    deadline = time.monotonic() + seconds
    while marked(attempt_folder, exclude):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, or its id was reused by somebody else
