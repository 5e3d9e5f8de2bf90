"""The state of runs that SLURM may hold: what their files say, then squeue, then accounting."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.slurm import accounting, backlog, command, queue, submission
from harness.store import evidence
from harness.store.runs import RunState, Store

_SETTLE_SECONDS = 10.0
"""A job that ended a moment ago may still be writing its last record."""
_UNTOLD = " without a record"
_BEYOND = "beyond a submit limit: "
_OTHERS = "jobs that end will submit it"
_NOBODY = "no job is left that could submit it: `harness sweep` again does"


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
    silent: bool = False
    """Whether squeue was asked about it and gave no answer."""


def look(store: Store, runs: Sequence[str], asked: queue.Queue | None = None) -> dict[str, Seen]:
    """The state of each run. One squeue call for all; sacct only for jobs that left squeue without a record.

    Runs that were never handed to SLURM cost no call. Raises: HarnessError where a run's folder is damaged.
    """
    return _look(store, runs, asked)[0]


def _look(store: Store, runs: Sequence[str], asked: queue.Queue | None) -> tuple[dict[str, Seen], queue.Queue | None]:
    """(the states, squeue's answer where it was asked)."""
    states = {run: store.state(run) for run in dict.fromkeys(runs)}
    held = handed(store, [run for run, state in states.items() if state.kind != "done"])
    if not held:
        return {run: Seen(state) for run, state in states.items()}, asked
    if asked is None:
        asked = queue.ask({h.record.user for h in held.values()})
    seen = {}
    lost: dict[str, Handed] = {}
    for run, state in states.items():
        job = asked.task(held[run].job) if run in held else None
        if job is not None and job.id != held[run].job and _began(store, run, held[run]):
            job = None  # the row is about the tasks that had not begun
        seen[run] = Seen(state, held.get(run), job, run in held and not asked.answered)
        if run in held and _needs_accounting(store, run, seen[run], asked):
            lost[run] = held[run]
    ended = _ended(lost.values()) if lost else {}
    for run, s in seen.items():
        if s.handed is not None:
            state = decide(s, asked, ended.get(s.handed.job or ""), recorded(store, run, s.handed))
            seen[run] = replace(s, state=_told(store, s.handed, state) if state.kind == "failed" else state)
    return seen, asked


def overview(store: Store, runs: Sequence[str]) -> dict[str, Seen]:
    """As `look`; a run that a submit limit keeps back counts as queued too."""
    seen, asked = _look(store, runs, None)
    waiting = [entry for entry in backlog.entries(store.root) if entry["run"] in seen]
    if not waiting:
        return seen
    if asked is None:
        asked = queue.ask({entry["user"] for entry in waiting})
    users = submitters(store, asked)
    for entry in waiting:
        s = seen[entry["run"]]
        if s.state.kind in ("new", "stopped", "failed"):
            alone = asked.answered and entry["user"] not in users
            state = replace(s.state, kind="queued", reason=_BEYOND + (_NOBODY if alone else _OTHERS))
            seen[entry["run"]] = replace(s, state=state)
    return seen


def states(store: Store, runs: Sequence[str]) -> dict[str, RunState]:
    """The states alone, as `overview` finds them."""
    return {run: seen.state for run, seen in overview(store, runs).items()}


def submitters(store: Store, asked: queue.Queue) -> set[str]:
    """The users who have jobs of this store in the queue: when one ends, it submits what waits for its user."""
    place = store.root / submission.FOLDER
    keys = {path.name[:8] for path in place.iterdir()} if place.is_dir() else set()
    return {job.user for job in asked.jobs.values() if job.live and job.name.rpartition("-")[2] in keys}


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


def _began(store: Store, run: str, held: Handed) -> bool:
    return any(attempt.get("job") == held.job for attempt in store.attempts(run))


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
        return replace(state, kind="stopped", reason=f"{held.link.withheld}{goes_on}")
    if attempt_recorded:
        return state
    if held.job is None:
        return replace(state, kind="unknown", reason=f"{held.record.user} is submitting it from {held.record.host}")
    if ended is not None and ended.ended:
        return _after(state, name, ended.state, ended.exit_code, held)
    if job is not None:  # squeue still lists it, as ended
        return _after(state, name, job.state, "", held)
    if not asked.answered:
        return replace(state, kind="unknown", reason=f"{name}: {asked.trouble}")
    why = "neither squeue nor accounting knows it"
    if ended is not None:
        why = f"squeue does not list it, accounting says {ended.state}"
    return replace(state, kind="unknown", reason=f"{name}: {why}")


def _doing(job: queue.Job) -> str:
    return "ending" if job.state == "COMPLETING" else "starting" if job.state == "RUNNING" else job.state.lower()


def _after(state: RunState, name: str, word: str, code: str, held: Handed) -> RunState:
    """A job that ended without a record of ours."""
    if word == "CANCELLED":
        return replace(state, kind="stopped", reason=f"{name} was cancelled at step {state.step} of {state.total}")
    exit_code = f" {code}" if code and code != "0:0" else ""
    return replace(state, kind="failed", reason=f"{name} ended as {word}{exit_code}{_UNTOLD}")


def _told(store: Store, held: Handed, state: RunState) -> RunState:
    """With the last words that a job without a record has left."""
    if not state.reason.endswith(_UNTOLD):
        return state
    logs = submission.folder(store.root, held.record.key) / "logs"
    words = evidence.last_words(sorted(logs.glob(f"{held.job}.*.log"), key=_written))
    return replace(state, reason=f"{state.reason}{f' ({words})' if words else ''}; see {logs}")


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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
