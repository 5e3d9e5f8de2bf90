"""`harness eval RUNS`: evaluates checkpoints again, with more samples, as jobs of their own or here.

A run that is still in SLURM's queue is evaluated when it is done: the job waits for the run's, and looks again whether
the run got through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config import cluster
from harness.errors import HarnessError, check
from harness.planning import freeze
from harness.running import evaluations, merge
from harness.running.supervise import StopRequest, supervise
from harness.slurm import live, snapshot, submission, submit
from harness.store.runs import RunState, Store

_JOB = "eval"
"""Begins the names of the jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command asks for."""

    step: int | None = None
    """None: the last checkpoint, of a run that is still queued or running the one of its last step."""
    n: int = 32
    """Samples a problem and evaluation seed."""
    seeds: int = 1
    time_limit: str = ""
    """Of the job; '' is the run's."""

    def __post_init__(self) -> None:
        for name, value in (("--n", self.n), ("--seeds", self.seeds)):
            if value < 1:
                raise HarnessError(f"{name} {value}: at least 1")

    @property
    def samples(self) -> int:
        """Samples a problem."""
        return self.n * self.seeds


@dataclass(frozen=True, slots=True)
class Chosen:
    """One evaluation that is to be made."""

    run: str
    step: int
    after: str = ""
    """The run's job, '' where the checkpoint is there."""

    @property
    def name(self) -> str:
        """As the store names it."""
        return evaluations.name(self.run, self.step)


def choose(state: RunState, job: str, there: Sequence[int], step: int | None, save_every: int) -> Chosen:
    """Which checkpoint of a run is evaluated, and after what.

    Args:
        state: the run's.
        job: its job that waits or works, '' without one.
        there: steps of its whole checkpoints.
        step: what was asked for, None for the last.
        save_every: steps between two checkpoints.

    Raises: HarnessError where there is no such checkpoint and will not be one, or that cannot be known.
    """
    run = state.id
    if job:
        last = state.total
        if step is None:
            return Chosen(run, last, job)
        if step not in there and step != last and (step % save_every or not state.step < step < last):
            some = ", ".join(map(str, there)) or "none"
            raise HarnessError(
                f"run {run} has not the checkpoint of step {step} (there: {some}) and will not save it: "
                f"save_every={save_every}, steps={last}"
            )
        return Chosen(run, step, job)
    if state.kind == "running":
        raise HarnessError(f"run {run} is being trained, and its checkpoints come and go: wait until it has ended")
    if state.kind in ("queued", "unknown"):
        raise HarnessError(f"run {run} is {state.kind} ({state.reason}): ask again when it has a job or has ended")
    evaluations.check_checkpoint(run, there, step)
    return Chosen(run, there[-1] if step is None else step)


def covered(store: Store, chosen: Chosen, asked: Asked) -> list[merge.Result]:
    """The results where the run's outcomes have as many samples of every problem already, else none."""
    found = [] if chosen.after else merge.there(store, chosen.run, chosen.step, asked.n)
    return found if all(result.samples >= asked.samples for result in found) else []


def goes_on(seen: live.Seen, samples: Mapping[str, int], asked: Asked) -> str:
    """Why an evaluation is left alone: '' if it is not queued and nobody works on it.

    Raises: HarnessError where it was asked for with fewer samples than now.
    """
    if seen.state.kind not in evaluations.PENDING:
        return ""
    run, step = evaluations.parts(seen.state.id)
    if samples["samples"] < asked.samples:
        raise HarnessError(
            f"run {run}: step {step} is {seen.state.kind} to be evaluated with {samples['samples']} samples, "
            f"not {asked.samples}: wait for it, or `harness cancel {run} --eval` and ask again"
        )
    return f"{seen.state.kind}: {seen.state.reason}"


def evaluate(store: Store, runs: Sequence[str], asked: Asked, project: Path, *, here: bool = False) -> Iterator[str]:
    """Evaluates or submits, each run where its cluster is; yields lines for people.

    Raises: HarnessError where one of the runs cannot be evaluated; none is submitted then.
    """
    away = [] if here else [run for run in runs if _on_slurm(store, run)]
    if away:
        yield from send(store, away, asked, project)
    elif asked.time_limit:
        raise HarnessError(f"--time-limit {asked.time_limit}: only for jobs on SLURM; here nothing has a limit")
    for run in runs:
        if run not in away:
            yield from foreground(store, run, asked)


def _on_slurm(store: Store, run: str) -> bool:
    return cluster.resolved(store.brief(run)["config"]["cluster"]["name"]) == "slurm"


def _choose(store: Store, runs: Sequence[str], asked: Asked) -> list[Chosen]:
    seen = live.overview(store, runs)
    jobs = live.jobs_of(seen)
    return [
        choose(seen[run].state, jobs.get(run, ""), evaluations.whole(store, run), asked.step,
               store.brief(run)["config"]["save_every"])
        for run in runs
    ]  # fmt: skip


def send(store: Store, runs: Sequence[str], asked: Asked, project: Path) -> Iterator[str]:
    """Submits the evaluations of these runs, those of equal requests as one array; nothing twice.

    The jobs take today's code, as an evaluation here does: the run's own may be gone, or too old to know how.
    """
    freeze.check_writable(store.root)
    _check_limit(store, runs, asked.time_limit)
    with submission.gate(store.root) as lock:
        submit.recover(store)
        chosen = _choose(store, runs, asked)
        states = live.overview(store, [c.name for c in chosen])
        left = {c.name: why for c in chosen if (why := _left(store, c, states[c.name], asked))}
        fresh = [c for c in chosen if c.name not in left]
        report = _submitted(store, fresh, asked, project, lock) if fresh else submit.Report()
    for evaluation, why in (left | report.left).items():
        yield f"{evaluations.label(evaluation)} left alone: {why}"
    for c in fresh:
        if job := report.jobs.get(c.name):
            yield f"{evaluations.label(c.name)}: job {job}" + (f", when job {c.after} has ended" if c.after else "")
    for evaluation in report.waiting:
        yield f"{evaluations.label(evaluation)} waits beyond {report.limit}: jobs that end will submit it"
    if report.jobs:
        one = fresh[0].run
        yield f"watch: harness status {one}    log: harness logs {one} --eval    cancel: harness cancel {one} --eval"


def _check_limit(store: Store, runs: Sequence[str], limit: str) -> None:
    for run in runs if limit else ():
        ahead = store.brief(run)["config"]["cluster"]["signal_seconds"]
        remedy = f"more than cluster.signal_seconds={ahead} of run {run}, which is told so long before the end"
        check(60 * cluster.minutes(limit) > ahead, "--time-limit", limit, remedy)


def _left(store: Store, chosen: Chosen, seen: live.Seen, asked: Asked) -> str:
    samples = store.brief(chosen.name)["evaluates"] if seen.state.kind in evaluations.PENDING else {}
    if why := goes_on(seen, samples, asked):
        return why
    found = covered(store, chosen, asked)
    return f"it is there: {'; '.join(merge.told(found).splitlines())}" if found else ""


def _submitted(store: Store, fresh: Sequence[Chosen], asked: Asked, project: Path, lock: int) -> submit.Report:
    code = str(snapshot.take(project, store.root))
    names = []
    try:
        for c in fresh:
            frozen = evaluations.frozen(
                store.spec(c.run), c.step, asked.n, asked.seeds,
                after=c.after, snapshot=code, time_limit=asked.time_limit,
            )  # fmt: skip
            names.append(evaluations.prepare(store, frozen))
        return submit.submit(store, names, _JOB, lock=lock)
    except HarnessError:
        for evaluation in names:
            if submission.current(store.folder(evaluation)) is None:  # SLURM has not got it
                evaluations.take_back(store, evaluation)
        raise


def foreground(store: Store, run: str, asked: Asked) -> Iterator[str]:
    """Evaluates one run here and yields its results."""
    (chosen,) = _choose(store, [run], asked)
    if chosen.after:
        raise HarnessError(f"run {run} has job {chosen.after}: without --here the evaluation waits for it as a job")
    seen = live.overview(store, [chosen.name])[chosen.name]
    if why := _left(store, chosen, seen, asked):
        yield f"{evaluations.label(chosen.name)} left alone: {why}"
        return
    spec = evaluations.frozen(store.spec(run), chosen.step, asked.n, asked.seeds)
    evaluations.prepare(store, spec)
    if why := evaluations.begin(store, chosen.name, spec):
        raise HarnessError(why)
    stop = StopRequest()
    stop.install()
    ended = supervise(store, chosen.name, stop)
    if ended.outcome != "done":
        evaluations.take_back(store, chosen.name)
        log = store.folder(chosen.name) / "attempts" / f"{len(store.attempts(chosen.name)):03d}" / "stdout.log"
        raise HarnessError(f"the evaluation {ended.outcome}: {ended.reason}; see {log}; the same command tries again")
    yield merge.told(merge.there(store, run, chosen.step, asked.n))
