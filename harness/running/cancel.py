"""Takes runs off the queue and off the nodes."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
from collections.abc import Sequence

from harness.running import evaluations
from harness.slurm import backlog, live, submission, submit, withhold
from harness.store import claim
from harness.store.runs import Store


def cancel(store: Store, runs: Sequence[str]) -> dict[str, str]:
    """Cancels what these runs have in the queue, on nodes or on this machine. Returns run -> what was cancelled.

    Evaluations among them are asked for no longer, whatever became of them.
    A run that works here under its own supervisor is asked to save and stop. What squeue does not tell is cancelled by
    the job ids that we know. Raises: command.Unavailable, Refused.
    """
    me = getpass.getuser()
    with submission.gate(store.root):
        submit.recover(store)
        told = dict.fromkeys(backlog.remove(store.root, runs), "was waiting to be submitted")
        seen = live.look(store, runs)
        jobs = {run: job for run, s in seen.items() if (job := _job(store, run, s))}
        withhold.scancel(jobs.values())
        for run, job in jobs.items():
            store.event(run, "cancelled", job=job, by=me)
            submission.withhold(store.folder(run), f"cancelled by {me}")
            told[run] = f"job {job}"
        for run in filter(evaluations.is_one, seen):
            evaluations.take_back(store, run)
    for run, s in seen.items():
        if run not in jobs and s.state.kind == "running" and (pid := _stop_here(store, run)):
            told[run] = f"process {pid} was asked to save and stop"
        elif evaluations.is_one(run):
            told.setdefault(run, "is asked for no longer")
    return told


def _job(store: Store, run: str, seen: live.Seen) -> str | None:
    """The job to cancel: one that waits or works, or that may do so; to cancel one that has ended does no harm."""
    if seen.handed is None or seen.state.kind == "done":
        return None
    if seen.job is not None:
        return seen.handed.job if seen.job.live else None
    owner = claim.owner(store.folder(run)) if seen.state.kind == "running" else None
    return seen.handed.job if seen.state.kind == "unknown" or (owner is not None and owner.job) else None


def _stop_here(store: Store, run: str) -> int | None:
    """Asks a supervisor on this machine to end; None where there is none."""
    owner = claim.owner(store.folder(run))
    if owner is None or owner.host != socket.gethostname():
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(owner.pid, signal.SIGTERM)
        return owner.pid
    return None
