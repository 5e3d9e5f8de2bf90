"""The state of runs that SLURM may hold: what their files say, then squeue, then accounting."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.slurm import accounting, backlog, command, queue, submission
from harness.store import RunState, Store

_SETTLE_SECONDS = 10.0
"""A job that ended a moment ago may still be writing its last record."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A run's latest submission and job."""

    link: submission.Link
    record: submission.Submission

    @property
    def job(self) -> str | None:
        """`1234_3`, None while sbatch has not answered."""
        return self.record.job(self.link.index)


@dataclass(frozen=True, slots=True)
class Seen:
    """One run at one moment."""

    state: RunState
    handed: Handed | None = None
    job: queue.Job | None = None


def look(store: Store, runs: Sequence[str], asked: queue.Queue | None = None) -> dict[str, Seen]:
    """The state of each run. One squeue call for all; sacct only for jobs that left squeue without a record.

    Runs that were never handed to SLURM cost no call. Raises: HarnessError where a run's folder is damaged.
    """
    states = {run: store.state(run) for run in dict.fromkeys(runs)}
    held = handed(store, [run for run, state in states.items() if state.kind != "done"])
    if not held:
        return {run: Seen(state) for run, state in states.items()}
    if asked is None:
        asked = queue.ask({h.record.user for h in held.values()})
    seen = {}
    lost: dict[str, Handed] = {}
    for run, state in states.items():
        job = asked.jobs.get(held[run].job or "") if run in held else None
        seen[run] = Seen(state, held.get(run), job)
        if run in held and _needs_accounting(store, run, seen[run], asked):
            lost[run] = held[run]
    ended = _ended(lost.values()) if lost else {}
    return {
        run: replace(s, state=decide(s, asked, ended.get(s.handed.job or ""), recorded(store, run, s.handed)))
        if s.handed is not None else s
        for run, s in seen.items()
    }  # fmt: skip


def overview(store: Store, runs: Sequence[str]) -> dict[str, Seen]:
    """As `look`; a run that a submit limit keeps back counts as queued too."""
    seen = look(store, runs)
    waiting = backlog.waiting(store.root)
    for run in waiting & seen.keys():
        s = seen[run]
        if s.state.kind in ("new", "stopped", "failed"):
            state = replace(s.state, kind="queued", reason="beyond a submit limit: jobs that end will submit it")
            seen[run] = replace(s, state=state)
    return seen


def handed(store: Store, runs: Sequence[str]) -> dict[str, Handed]:
    """The submissions of those runs that have one."""
    records: dict[str, submission.Submission | None] = {}
    found = {}
    for run in runs:
        link = submission.current(store.folder(run))
        if link is None:
            continue
        if link.submission not in records:
            try:
                records[link.submission] = submission.read(store.root, link.submission)
            except FileNotFoundError:
                records[link.submission] = None
        record = records[link.submission]
        if record is not None:
            found[run] = Handed(link, record)
    return found


def recorded(store: Store, run: str, held: Handed) -> bool:
    """Whether an attempt that ended after the submission left its record: then the files tell the end."""
    attempts = store.attempts(run)
    last = attempts[-1] if attempts else {}
    if "ended" not in last:
        return False
    job = last.get("job")
    return job == held.job if job else _unix(last["ended"]) >= held.record.time


def decide(seen: Seen, asked: queue.Queue, ended: accounting.Attempt | None, attempt_recorded: bool) -> RunState:
    """The state of a run that was handed to SLURM. Not to be in squeue is no evidence of anything."""
    state, held, job = seen.state, seen.handed, seen.job
    if held is None or state.kind == "done":
        return state
    name = f"job {held.job}" if held.job else "its submission"
    if state.kind == "running":
        where = f"{name} on {job.nodes}" if job is not None and job.nodes else name
        return replace(state, reason=f"{where}, step {state.step} of {state.total}")
    goes_on = f", goes on from step {state.step}" if state.step else ""
    if job is not None and job.state in queue.WAITING:
        return replace(state, kind="queued", reason=f"{name} waits: {job.reason or job.state.lower()}{goes_on}")
    if job is not None and job.state in queue.ON_NODES:
        return replace(state, kind="running", reason=f"{name} on {job.nodes} is {_doing(job)}{goes_on}")
    if held.link.withheld:
        return replace(state, kind="stopped", reason=held.link.withheld)
    if attempt_recorded:
        return state
    if held.job is None:
        return replace(state, kind="unknown", reason=f"{held.record.user} is submitting it from {held.record.host}")
    if ended is not None and ended.ended:
        return _after(state, name, ended.state, ended.exit_code, held)
    if job is not None:  # squeue still lists it, as ended
        return _after(state, name, job.state, "", held)
    why = asked.trouble if not asked.answered else "neither squeue nor accounting knows it"
    return replace(state, kind="unknown", reason=f"{name}: {why}")


def _doing(job: queue.Job) -> str:
    return "ending" if job.state == "COMPLETING" else "starting" if job.state == "RUNNING" else job.state.lower()


def _after(state: RunState, name: str, word: str, code: str, held: Handed) -> RunState:
    """A job that ended without a record of ours."""
    if word == "CANCELLED":
        return replace(state, kind="stopped", reason=f"{name} was cancelled at step {state.step} of {state.total}")
    logs = submission.FOLDER + f"/{held.record.key}/logs"
    exit_code = f" {code}" if code and code != "0:0" else ""
    return replace(state, kind="failed", reason=f"{name} ended as {word}{exit_code} without a record; see {logs}")


def _needs_accounting(store: Store, run: str, seen: Seen, asked: queue.Queue) -> bool:
    held = seen.handed
    if held is None or held.job is None or seen.state.kind == "running" or held.link.withheld:
        return False
    if not asked.answered or seen.job is not None:
        return False
    return time.time() - held.record.time > _SETTLE_SECONDS and not recorded(store, run, held)


def _ended(lost: Iterable[Handed]) -> dict[str, accounting.Attempt]:
    """The last attempt of each job, where accounting has it."""
    arrays = {h.record.array for h in lost if h.record.array}
    try:
        rows = accounting.attempts(arrays)
    except (command.Unavailable, command.Refused):
        return {}  # no accounting: the states stay unknown
    return {row.job: row for row in rows}


def _unix(iso: str) -> float:
    import datetime

    try:
        return datetime.datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return 0.0


def jobs_of(seen: Mapping[str, Seen]) -> dict[str, str]:
    """Run -> id of its job, for the runs whose job waits or works."""
    return {run: s.handed.job for run, s in seen.items() if s.handed and s.handed.job and s.job and s.job.live}
