"""Applies a plan: freezes what is missing, runs it, says what became of it, writes the report."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from harness.config.compose import compose, project_folder
from harness.config.grid import Sweep, load
from harness.config.machine import Machine, check, survey
from harness.planning import estimates, freeze, listing, provenance
from harness.planning.plan import Planned, check_compared, plan, summary
from harness.planning.signature import run_id, signature
from harness.running import progress
from harness.running import prune as prunes
from harness.running.local import Job, LocalLauncher, Outcome
from harness.running.supervise import StopRequest, supervise
from harness.slurm import admission, live, schedule
from harness.store import evidence
from harness.store.runs import Store
from harness.trainer.cpu import forkserver

EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130


def apply(
    name: str,
    extra: Sequence[str] = (),
    *,
    report: bool = True,
    trainer: str = freeze.TRAINER,
    prune: bool = False,
) -> int:
    """`harness sweep NAME`. Returns the exit code: 0 all runs are done or queued, 1 some failed, 130 interrupted.

    `extra` overrides win over the file's. `prune` cancels queued and running runs that the sweep no longer asks for.
    """
    project = project_folder()
    sweep, store = load(name, extra), Store.default(project)
    entries = plan(sweep, store, project, functools.partial(live.states, store))
    check_compared(sweep, entries, extra)
    return carry_out(sweep, entries, store, project, report=report, trainer=trainer, prune=prune)


def carry_out(
    sweep: Sweep,
    entries: Sequence[Planned],
    store: Store,
    project: Path,
    *,
    report: bool = True,
    trainer: str = freeze.TRAINER,
    prune: bool = False,
    anyway: Collection[str] = (),
) -> int:
    """Carries out a plan, here or on SLURM; see `apply`. `anyway`: see harness.slurm.schedule."""
    told = [listing.plan(sweep, entries, estimates.points(entries, store)), *estimates.lines(entries, store)]
    told.append(summary(entries))
    print("\n\n".join(told) + "\n", flush=True)
    estimates.check_budget(sweep, entries, store)
    admission.check(entries)
    left_out = prunes.left_out(store, sweep, entries)
    pruned = prunes.prune(store, left_out, agreed=prune)
    left_out = [] if prune else left_out
    if pruned:
        print("\n".join(pruned) + "\n", flush=True)
    if schedule.launcher(entries) == "slurm":
        done = schedule.schedule(sweep, entries, store, project, trainer=trainer, anyway=anyway, left_out=left_out)
        print("\n".join(schedule.told(done, sweep.name)))
        return EXIT_DONE
    # Runs that another process works on are waited for: the report is about all of them.
    jobs = [
        _job(e) for e in entries if e.action in ("add", "retry") or e.state.kind == "running" and e.action == "keep"
    ]
    machine = survey()
    for job in jobs:
        check(machine, job.need, job.label)
    stop = StopRequest()
    stop.install()
    freeze.freeze(sweep, entries, store, project, provenance.collect(project), trainer, left_out=left_out)
    if jobs:
        what = "1 run trains" if len(jobs) == 1 else f"{len(jobs)} runs train"
        print(f"{what} on this machine; Ctrl-C saves and stops, the same command goes on\n", flush=True)
    outcome = _launch(sweep, entries, jobs, store, machine, stop) if jobs else Outcome()
    for line in _failures(store, outcome.failed):
        print(line)
    if outcome.interrupted:
        print(f"\ninterrupted; the same command goes on from the last checkpoints: harness sweep {sweep.name}")
        return EXIT_INTERRUPTED
    if report:
        _report(sweep.name, store, project)
    return EXIT_FAILED if outcome.failed else EXIT_DONE


def _job(entry: Planned) -> Job:
    return Job(entry.id, entry.label, entry.composed.settings.model.resources)


def _launch(
    sweep: Sweep,
    entries: Sequence[Planned],
    jobs: Sequence[Job],
    store: Store,
    machine: Machine,
    stop: StopRequest,
) -> Outcome:
    cluster = entries[0].composed.settings.cluster
    on_cpu = any(e.composed.settings.platform == "cpu" for e in entries)
    runs = list(dict.fromkeys(e.id for e in entries))
    watcher = progress.watcher(store, runs, f"sweep {sweep.name}", sys.stdout)
    try:
        warm = on_cpu and cluster.fork_server and len(jobs) > 1
        with forkserver.for_runs(store.spec(jobs[0].id), wanted=warm) as environment:
            launcher = LocalLauncher(store, machine, most=cluster.max_runs, environment=environment)
            return launcher.run(jobs, stop, watcher)
    finally:
        watcher.close()


def _failures(store: Store, failed: Sequence[str]) -> list[str]:
    """What failed, with the line of the log that says why."""
    if not failed:
        return []
    lines = [f"\n{len(failed)} of the runs failed:"]
    for run in failed:
        attempts = store.attempts(run)
        logfile = store.folder(run) / "attempts" / f"{len(attempts):03d}" / "stdout.log"
        reason = attempts[-1].get("reason") or _last_words(logfile) if attempts else "never started"
        lines += [f"  {run}  {store.spec(run)['label']}: {reason}", f"      {logfile}"]
    return [*lines, "the same command tries them again"]


def _last_words(logfile: Path) -> str:
    """Why an attempt ended whose end was not recorded: its supervisor was killed, or the disk was full."""
    found = evidence.cause(evidence.tail(logfile), None)
    return f"{found.name}: {found.line}" if found.name != "unknown" else "its supervisor ended without a word"


def _report(name: str, store: Store, project: Path) -> None:
    """The analysis runs in a process of its own: it needs pandas, this one must not."""
    folders = {"HARNESS_RUNS": str(store.root), "HARNESS_REPORTS": str(project / "reports")}
    command = [sys.executable, "-m", "harness", "report", name]
    print("\nreport:", flush=True)
    if subprocess.run(command, env={**folders, **os.environ}, check=False).returncode:
        print(f"the report was not written; the runs are safe, try again with: make report SWEEP={name}")


def train(overrides: Sequence[str]) -> int:
    """`harness train key=value ...`: one run here, in the foreground."""
    project = project_folder()
    store = Store.default(project)
    composed = compose(overrides)
    sig = signature(composed, project)
    run = run_id(sig)
    state = store.state(run)
    need = composed.settings.model.resources
    print(f"{run}  {composed.settings.label}  {store.folder(run)}", flush=True)
    if state.kind == "done":
        print(f"done already, {state.step} of {state.total} steps: nothing to do")
        return EXIT_DONE
    check(survey(), need, composed.settings.label)
    freeze.check_writable(store.root)
    collected = provenance.collect(project)
    spec = freeze.spec(run, composed, sig, sweep="", project=project, provenance=collected)
    store.freeze(run, spec, collected.diff)
    stop = StopRequest()
    stop.install()
    ended = supervise(store, run, stop, echo=sys.stdout)
    print(f"{run}  {ended.outcome}" + (f": {ended.reason}" if ended.reason else ""))
    if ended.outcome == "stopped":
        print("the same command goes on from the last checkpoint")
        return EXIT_INTERRUPTED
    return EXIT_DONE if ended.outcome == "done" else EXIT_FAILED
