"""`harness train --multirun ...`: Hydra's multirun, with any of its launchers; `hydra/launcher=harness` is ours."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.commands import status
from harness.config.compose import project_folder
from harness.config.grid import Point, Sweep
from harness.config.machine import check, survey
from harness.config.settings import Resources
from harness.config.typed import construct
from harness.errors import HarnessError
from harness.planning import estimates, freeze, listing, provenance
from harness.planning.plan import Planned, plan, summary, todo
from harness.running import apply, local, progress, supervise
from harness.slurm import live, schedule
from harness.store.runs import Store, ids_of

EXIT_DONE, EXIT_FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one job of a multirun."""

    run: str
    state: str
    """`done`, `failed`, `stopped`, `queued`, `running`, `unknown`."""
    reason: str


def run(overrides: Sequence[str]) -> int:
    """Runs Hydra's multirun over conf/. Returns 1 where a run that was waited for is not done.

    Raises: HarnessError with Hydra's own first line where an override is wrong.
    """
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    with initialize_config_dir(str(project_folder() / "conf"), job_name="harness", version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        if hydra is None:
            raise HarnessError("Hydra did not start: another Hydra application runs in this process")
        try:
            batches = hydra.multirun("config", _one, list(overrides))
        except (HydraException, OmegaConfBaseException) as error:
            raise HarnessError(f"multirun: {str(error).splitlines()[0]}") from None
    values = [job.return_value for batch in batches for job in batch]
    lost = [value for value in values if isinstance(value, Result) and value.state in ("failed", "stopped", "unknown")]
    return EXIT_FAILED if lost or any(isinstance(value, int) and value for value in values) else EXIT_DONE


def _one(config: Any) -> int:
    """The task of Hydra's other launchers: one training here, in the foreground."""
    from hydra.core.hydra_config import HydraConfig

    return apply.train([_bare(text) for text in HydraConfig.get().overrides.task])


def launch(
    job_overrides: Sequence[Sequence[str]], *, wait: bool, sweep: str | None, trainer: str = freeze.TRAINER
) -> list[Any]:
    """Plans and starts all jobs of a batch; one hydra.core.utils.JobReturn a job, whose value is a Result.

    A run that is done already is not started again, two jobs that are one experiment are one run, and a run that is
    lost hides no other. Raises: HarnessError where a job does not compose.
    """
    from hydra.core.utils import JobReturn, JobStatus

    project = project_folder()
    store = Store.default(project)
    jobs = [_ours(job) for job in job_overrides]
    shared = set.intersection(*map(set, jobs)) if len(jobs) > 1 else set()
    points = tuple(Point(texts, tuple(text for text in texts if text not in shared)) for texts in jobs)
    asked = Sweep(sweep or "", "", points, {}, None, Path("multirun"))
    entries = plan(asked, store, project, functools.partial(live.states, store))
    named = Sweep(sweep or name(entries), "", points, {}, None, Path("multirun"))
    print("\n\n".join([listing.plan(named, entries), *estimates.lines(entries, store), summary(entries)]), flush=True)
    runs = list(dict.fromkeys(entry.id for entry in entries))
    if schedule.launcher(entries) == "slurm":
        report = schedule.schedule(named, entries, store, project, trainer=trainer)
        print("\n" + "\n".join(schedule.told(report, named.name)), flush=True)
    else:
        freeze.freeze(named, entries, store, project, provenance.collect(project), trainer)
        for entry in entries:
            check(survey(), entry.composed.settings.model.resources, entry.label)
        if wait:
            work_off(store, named.name)
        elif todo(entries):
            _in_background(store, named.name)
    if wait:
        status.watch(store, runs, f"multirun {named.name}", every=2.0)
    elif schedule.launcher(entries) != "slurm":
        print(f"watch: harness status {named.name} --watch", flush=True)
    seen = live.overview(store, runs)
    returns = []
    for texts, entry in zip(job_overrides, entries, strict=True):
        state = seen[entry.id].state
        value = Result(entry.id, state.kind, state.reason)
        done = JobReturn(overrides=list(texts), working_dir=str(store.folder(entry.id)), task_name="harness")
        done.status, done.return_value = JobStatus.COMPLETED, value  # FAILED would make Hydra drop all the others
        returns.append(done)
    return returns


def name(entries: Sequence[Planned]) -> str:
    """A name that the same multirun gets again: made of its runs."""
    runs = sorted({entry.id for entry in entries})
    return f"multirun-{hashlib.sha256(' '.join(runs).encode()).hexdigest()[:6]}"


def _ours(job: Sequence[str]) -> tuple[str, ...]:
    return tuple(_bare(text) for text in job if not text.lstrip("+").startswith(("hydra.", "hydra/")))


def _bare(text: str) -> str:
    """Hydra wants a `+` before keys that no file of conf/ has; the harness knows all valid keys itself."""
    return text.lstrip("+")


def _in_background(store: Store, sweep: str) -> None:
    """Runs the sweep in a process of its own, which outlives this command."""
    log = store.sweep_file(sweep).with_suffix(".log")
    with log.open("a", encoding="utf-8") as file:
        subprocess.Popen(
            [sys.executable, "-m", "harness.commands.multirun", str(store.root), sweep],
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            cwd=project_folder(), env=dict(os.environ),
        )  # fmt: skip
    print(f"started here, as many at once as fit; log: {log}", flush=True)


def work_off(store: Store, sweep: str) -> local.Outcome:
    """Runs what a multirun froze on this machine, to its end."""
    stop = supervise.StopRequest()
    stop.install()
    jobs, most = [], None
    for run_id in ids_of(store, sweep):
        brief = store.brief(run_id)
        most = brief["config"]["cluster"]["max_runs"]
        if store.state(run_id).kind != "done":
            need = construct(Resources, brief["config"]["model"]["resources"])
            jobs.append(local.Job(run_id, str(brief["label"]), need))
    watcher = progress.Lines(store, [job.id for job in jobs], sys.stdout)
    return local.LocalLauncher(store, survey(), most=most).run(jobs, stop, watcher)


def main() -> int:
    """`python -m harness.commands.multirun ROOT SWEEP`: the same in the background."""
    outcome = work_off(Store(Path(sys.argv[1])), sys.argv[2])
    return EXIT_FAILED if outcome.failed else EXIT_DONE


if __name__ == "__main__":
    raise SystemExit(main())
