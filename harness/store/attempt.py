"""How an attempt at a run can end, and what surrounds its trainer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_STOPPED, EXIT_CLAIMED = 0, 1, 2, 3, 4
"""Of `python -m harness.running.supervise RUN_DIR` and of a job: done; failed; a fault that the user must mend; saved
and resumable; another process works on the run."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    outcome: str
    """`done`, `stopped` or `failed`."""
    cause: str
    """Class of the failure, '' if it is none."""
    reason: str
    """For people; the line of the log that says why."""
    nodes: tuple[str, ...] = ()
    """The nodes at fault, where that is known."""

    @property
    def exit_code(self) -> int:
        """What the supervising process exits with."""
        return {"done": EXIT_DONE, "stopped": EXIT_STOPPED}.get(self.outcome, EXIT_FAILED)


class NotReady(Exception):
    """What the trainer needs around it did not come up; it was never started."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.reason)
        self.ended = ended


@dataclass(frozen=True, slots=True)
class Around:
    """What surrounds a trainer: nothing on this machine, a Ray cluster in a job of a batch system."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """For the trainer, on top of ours."""
    fault: Callable[[bool], Ended | None] = lambda settle: None
    """How it has broken, None while it is well. With `settle` the trainer has just failed, and what broke may
    take a few seconds to show."""


@contextlib.contextmanager
def alone(attempt: Path) -> Iterator[Around]:
    """The surroundings of a trainer that brings up all it needs."""
    yield Around()


Surroundings = Callable[[Path], contextlib.AbstractContextManager[Around]]
"""Brings up what the attempt in this folder needs. Raises: NotReady."""
