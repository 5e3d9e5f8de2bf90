"""`python -m harness.running.job.lead RUN_DIR`: the payload of a SLURM job, one task on each of its nodes.

The first task leads: it supervises the attempt, and puts the job back into the queue where that will help. It gets
SIGUSR2 ahead of a time limit or a preemption, SIGTERM when the job is cancelled. Exit codes:
those of harness.store.attempt.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from harness.errors import HarnessError
from harness.running import evaluations, policy, supervise
from harness.running.job import ray_cluster, ray_node, requeue
from harness.running.job.allocation import Allocation
from harness.running.job.rendezvous import Meeting
from harness.slurm import accounting, command, excluded, postmortem, submission
from harness.store import claim
from harness.store.attempt import EXIT_CLAIMED, EXIT_DONE, EXIT_USAGE, Ended
from harness.store.runs import Store

log = logging.getLogger(__name__)

_TEARDOWN_SECONDS = 15.0
"""Kept free between the end of the trainer and the time limit: Ray goes down, the job goes back into the queue."""
_TERM_SECONDS = 5.0
"""SIGTERM reaches every process of the job, Ray too: nothing can be saved any more, only W&B flushed."""


class JobStop(supervise.StopRequest):
    """SLURM's signals. The one ahead of a time limit or a preemption leaves time to save."""

    def __init__(self, here: Allocation, root: Path) -> None:
        super().__init__()
        self._here = here
        self._root = root
        self._warned = False

    def install(self) -> None:
        """Takes over the signals of this process."""
        super().install()
        signal.signal(signal.SIGUSR2, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR2:
            if self._warned:
                return  # a second one, of a preemption after a time limit, does not hurry us
            self._warned = True
            self.limit = max(_TERM_SECONDS, self._here.signal_seconds - _TEARDOWN_SECONDS)
        elif not self._warned:
            self.limit = _TERM_SECONDS
        super()._on_signal(number, frame)

    def ended(self) -> Ended:
        """The record of an attempt that a signal ended, from what SLURM says of the job."""
        return requeue.why(requeue.show(self._here.job), self._warned, self._words())

    def _words(self) -> str:
        return postmortem.words(self._root, self._here.submission, self._here.job, self._here.restart)

    def asked(self) -> Ended | None:
        """The same while a stop is asked for, else None."""
        return self.ended() if self.count else None


def superseded(folder: Path, here: Allocation) -> bool:
    """Whether a later submission has taken the run over, or the run was taken back."""
    link = submission.current(folder)
    return bool(here.submission) and (link is None or link.submission != here.submission)


def lead(folder: Path, here: Allocation) -> int:
    """Rank 0. Returns the exit code; does not return where the job goes back into the queue."""
    store, run = Store.holding(folder)
    stop = JobStop(here, store.root)
    stop.install()
    meeting = Meeting.of(folder, here.number, here.restart)
    meeting.open()
    try:
        spec = store.spec(run)
        if "evaluates" in spec and (why := evaluations.begin(store, run, spec)):
            evaluations.withhold(store, run, why)
            print(f"nothing was evaluated: {why}", flush=True)
            return EXIT_DONE
        for name in set(os.environ) - set(ray_node.clean(os.environ, spec)):
            del os.environ[name]
        names = tuple(here.names())
        leader = ray_cluster.Leader(spec, here, meeting, names, stop.asked)
        facts = {"job": here.job, "restart": here.restart, "submission": here.submission, "nodes": list(names)}
        postmortem.complete(store, run)
        try:
            ended = supervise.supervise(store, run, stop, around=leader.around, facts=facts)
        except claim.Claimed:
            gone = _ended_owner(folder)
            if not gone:
                raise
            ended = supervise.supervise(store, run, stop, around=leader.around, facts=facts, gone=gone)
    finally:
        meeting.dismiss(here.nodes)
    if ended.outcome != "done":
        _go_on(store, run, here, spec["config"]["cluster"], resumes="evaluates" not in spec)
    return ended.exit_code


def _go_on(store: Store, run: str, here: Allocation, wishes: dict[str, Any], *, resumes: bool) -> None:
    """Puts the job back into the queue where the policy says so."""
    limits = {"max_requeues": wishes["max_requeues"], "retry_nodes": wishes["retry_nodes"]}
    history = store.attempts(run)
    if not resumes:  # those of earlier requests do not count
        history = [attempt for attempt in history if attempt.get("submission") == here.submission]
    decision = policy.decide(history, **limits, resumes=resumes)
    log.warning("%s: %s", decision.action, decision.reason)
    if decision.action == policy.STOP:
        return

    def note(away: Sequence[str]) -> None:
        if decision.reason == "node failure":
            for node in decision.exclude:
                excluded.add(store.root, node, run, decision.reason)
        store.event(
            run, "requeued", job=here.job, restart=here.restart + 1, reason=decision.reason, excluded=list(away)
        )

    requeue.requeue(here, decision.exclude, note)


def _ended_owner(folder: Path) -> str:
    """The job that owns the run, where accounting knows that it has ended; else ''. To be gone is no evidence."""
    owner = claim.owner(folder)
    if owner is None or owner.job.partition("@")[2] != claim.here().job.partition("@")[2]:
        return ""
    try:
        rows = accounting.attempts([owner.job.partition("@")[0]])
    except (command.Unavailable, command.Refused):
        return ""
    return owner.job if rows and rows[-1].ended else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    (name,) = arguments if arguments is not None else sys.argv[1:]
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    folder = Path(name).resolve()
    try:
        here = Allocation.read(os.environ)
        if superseded(folder, here):
            print(f"{folder.name}: superseded by a later submission; nothing to do")
            return EXIT_DONE
        return lead(folder, here) if here.rank == 0 else ray_cluster.follow(folder, here)
    except claim.Claimed as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CLAIMED
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE


if __name__ == "__main__":
    raise SystemExit(main())
