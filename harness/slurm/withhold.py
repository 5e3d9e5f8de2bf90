"""Takes jobs that have not started off the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.slurm import backlog, command, live, submission
from harness.store.runs import Store

_BATCH = 200
"""Job ids a call."""


def withhold(store: Store, seen: Mapping[str, live.Seen], runs: Iterable[str], reason: str) -> list[str]:
    """Cancels the jobs among these that have not started, and notes why. Inside the gate. Returns the runs."""
    gone = set(backlog.remove(store.root, set(runs)))
    waiting = {run: job for run, job in live.jobs_of(seen).items() if seen[run].state.kind == "queued" and run in runs}
    scancel(waiting.values())
    for run in waiting:
        submission.withhold(store.folder(run), reason)
    for run in sorted(gone | set(waiting)):
        store.event(run, "withheld", reason=reason)
    return sorted(gone | set(waiting))


def scancel(jobs: Iterable[str]) -> None:
    """Cancels jobs by id; one that has just ended is no error. Raises: command.Unavailable, Refused."""
    wanted = sorted(jobs)
    for first in range(0, len(wanted), _BATCH):
        try:
            command.run(["scancel", *wanted[first : first + _BATCH]])
        except command.Refused as refusal:
            if "Invalid job id" not in str(refusal) and "already complet" not in str(refusal):
                raise
