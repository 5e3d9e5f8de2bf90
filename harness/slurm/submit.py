"""Hands frozen runs to SLURM: nothing twice, nothing lost, whatever is killed when."""

from __future__ import annotations

import contextlib
import getpass
import itertools
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.slurm import accounting, backlog, command, excluded, limits, live, queue, script, submission
from harness.store.runs import Store

log = logging.getLogger(__name__)

_SETTLE_SECONDS = 5.0
"""After so long slurmctld has read every request that a killed sbatch had sent."""


_FOLLOW = "jobs that end will submit them"


@dataclass(slots=True)
class Report:
    """What became of the runs that were to be submitted."""

    jobs: dict[str, str] = field(default_factory=dict)
    """Run -> job id."""
    waiting: list[str] = field(default_factory=list)
    """Runs beyond a submit limit: jobs that end submit them."""
    left: dict[str, str] = field(default_factory=dict)
    """Run -> why it was not submitted: somebody works on it, it is queued, its state is not known."""
    limit: str = ""
    """Which limit keeps the waiting ones."""
    alone: bool = False
    """Whether no job could submit the waiting ones when it ends."""

    @property
    def arrays(self) -> list[str]:
        """Ids of the arrays."""
        return list(dict.fromkeys(job.partition("_")[0] for job in self.jobs.values()))


def recover(store: Store) -> None:
    """Settles submissions whose submitter died between its intent and sbatch's answer. Call it inside the gate.

    Raises: command.Unavailable where squeue does not answer, so that nothing is known.
    """
    for intended in submission.undecided(store.root):
        array = _find(intended)
        if array is None:
            time.sleep(max(0.0, min(_SETTLE_SECONDS, intended.time + _SETTLE_SECONDS - time.time())))
            array = _find(intended)
        if array is None:
            submission.close(store.root, intended, ended="never arrived")
            continue
        log.warning("job %s of an interrupted submission was found again", array)
        _record(store, submission.close(store.root, intended, array=array))


def _find(intended: submission.Submission) -> str | None:
    """The array of an intent, by its job name, from squeue or else from accounting."""
    asked = queue.ask(name=intended.name)
    if not asked.answered:
        raise command.Unavailable(
            f"job {intended.name}: whether it was submitted is not known ({asked.trouble}); nothing was submitted"
        )
    for job in asked.named(intended.name):
        return job.id.partition("_")[0]
    with contextlib.suppress(command.Unavailable, command.Refused):  # no accounting: squeue's word stands
        for attempt in accounting.named(intended.name):
            return attempt.job.partition("_")[0]
    return None


def submit(store: Store, runs: Sequence[str], sweep: str, *, lock: int, anyway: bool = False) -> Report:
    """Submits frozen runs as arrays of equal requests. Call it inside the gate, whose lock sbatch gets too.

    A run that is done, that somebody works on or whose job is in the queue is left alone; one whose job is in an
    unknown state too, unless `anyway`. Raises: command.Refused with SLURM's words where a request is wrong;
    command.Unavailable where SLURM is away. What was submitted before that stays recorded.
    """
    report = Report()
    eligible = ("new", "stopped", "failed", "absent") + (("unknown",) if anyway else ())
    seen = live.look(store, runs)
    ready = []
    for run, s in seen.items():
        if s.state.kind in eligible:
            ready.append(run)
        else:
            report.left[run] = f"{s.state.kind}: {s.state.reason}" if s.state.reason else s.state.kind
    if ready:
        _arrays(store, ready, sweep, lock, report)
    return report


def _arrays(store: Store, ready: Sequence[str], sweep: str, lock: int, report: Report) -> None:
    specs = {run: store.spec(run) for run in ready}
    bad_nodes = excluded.nodes(store.root)
    groups: dict[script.Request, list[str]] = {}
    for run, spec in specs.items():
        groups.setdefault(script.request(spec, bad_nodes), []).append(run)
    me = getpass.getuser()
    asked_queue = queue.ask([me])
    used = [limits.place(job) for job in asked_queue.jobs.values() if job.live]
    for asked, runs in groups.items():
        found = limits.ask(me, asked.account, asked.qos, asked.partition)
        rest = list(runs)
        while rest:
            room = found.room(used)
            size = min(len(rest), found.array_size, len(rest) if room is None else room[0])
            sent = _fitting(store, rest[:size], sweep, asked, lock, report, crowded=bool(used)) if size else 0
            rest = rest[sent:]
            used += sent * [found.place]
            if not sent:
                report.limit = room[1] if room is not None and not size else "a submit limit of the cluster"
                break
        report.waiting += rest
        tightest = found.tightest()
        if rest and tightest is not None and tightest.most == 1:
            report.alone = True  # SLURM counts the job that would submit them
    report.alone |= not report.jobs and asked_queue.answered and me not in live.submitters(store, asked_queue)
    backlog.add(store.root, report.waiting, sweep)
    backlog.remove(store.root, report.jobs)


def _fitting(
    store: Store, runs: Sequence[str], sweep: str, asked: script.Request, lock: int, report: Report, *, crowded: bool
) -> int:
    """Submits as many of the runs as SLURM takes in one array, halving where it says that they are too many.

    Raises: command.Refused where another time would not help.
    """
    size = len(runs)
    while size:
        try:
            report.jobs |= _array(store, runs[:size], sweep, asked, lock)
            return size
        except command.Refused as refusal:
            many = limits.too_many(str(refusal))
            if many is False or (many is None and size == 1 and not crowded):
                raise
            size //= 2
    return 0


def _array(store: Store, runs: Sequence[str], sweep: str, asked: script.Request, lock: int) -> dict[str, str]:
    key = submission.new_key()
    intended = submission.Submission(
        key=key, name=submission.job_name(sweep, key), sweep=sweep, runs=tuple(runs), user=getpass.getuser(),
        host=socket.gethostname(), time=time.time(),
    )  # fmt: skip
    submission.open_(store.root, intended)
    path = script.write(store.root, intended, asked)
    try:
        array = script.sbatch(path, asked, lock=lock)
    except command.Refused as refusal:
        submission.close(store.root, intended, ended=f"refused: {refusal}")
        raise
    closed = submission.close(store.root, intended, array=array)
    _record(store, closed)
    return dict(zip(closed.runs, (f"{array}_{i}" for i in range(len(closed.runs))), strict=True))


def _record(store: Store, closed: submission.Submission) -> None:
    for index, run in enumerate(closed.runs):
        store.event(run, "submitted", job=closed.job(index), submission=closed.key)


def summary(report: Report) -> Iterator[str]:
    """What to tell the person who submitted."""
    if report.jobs:
        arrays = report.arrays
        noun = "job array" if len(arrays) == 1 else "job arrays"
        yield f"{_runs(len(report.jobs))} queued as {noun} {', '.join(arrays)}"
    if report.waiting:
        later = "no job can submit them later, `harness sweep` again does" if report.alone else _FOLLOW
        yield f"{_runs(len(report.waiting))} beyond {report.limit}: {later}"
    for why, group in itertools.groupby(
        sorted(report.left.items(), key=lambda item: item[1]), key=lambda item: item[1]
    ):
        yield f"{', '.join(run for run, _ in group)} left alone: {why}"


def _runs(n: int) -> str:
    return f"{n} run" if n == 1 else f"{n} runs"
