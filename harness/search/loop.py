"""`harness ksearch STUDY`: the loop around the controller, and the study's lock."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config import grid, reference
from harness.config.compose import compose, project_folder
from harness.config.typed import to_plain
from harness.errors import HarnessError
from harness.planning import freeze
from harness.running.supervise import StopRequest
from harness.search import journal as records
from harness.search import launch, narrow, text
from harness.search import study as studies
from harness.search.backend import StoreBackend
from harness.search.controller import Controller
from harness.search.journal import Journal
from harness.search.state import View
from harness.search.study import Study
from harness.store import claim
from harness.store.runs import Store
from harness.trainer.cpu import forkserver

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
FOLDER = "_studies"


def folder(store: Store, study: str) -> Path:
    """Where a study's journal, lock and notes lie."""
    return store.root / FOLDER / study


def ksearch(
    name: str,
    extra: Sequence[str] = (),
    *,
    once: bool = False,
    report: bool = True,
    trainer: str = freeze.TRAINER,
) -> int:
    """Carries a study out until it is over, or for one tick.

    Returns the exit code: 0 well, 1 no trial gave a value, 130 interrupted. Raises: HarnessError; claim.Claimed where
    another controller is at it.
    """
    study, project = studies.load(name, extra), project_folder()
    store = Store.default(project)
    freeze.check_writable(store.root)
    place = folder(store, study.name)
    place.mkdir(parents=True, exist_ok=True)
    with held(place):
        controller = _controller(study, store, project, place, once, trainer)
        with controller as (run, launcher):
            if not run.resume(by_hand=not once):
                print(f"study {study.name} was cancelled: `harness ksearch {study.name}` without --once goes on")
                return EXIT_DONE
            _check_cap(study, run)
            if once:
                _tick(study, run)
                over = run.view().over
            else:
                over = _loop(study, run, launcher, place)
        if not over:
            return EXIT_DONE if once else EXIT_INTERRUPTED
        print(text.result(study, run.view()))
    if report:
        _report(study, store, project)
    return EXIT_DONE if over == "done" else EXIT_FAILED


@contextlib.contextmanager
def held(place: Path) -> Iterator[None]:
    """Owns the study in `place` while the block runs. Raises: claim.Claimed, naming the study and its live owner."""
    try:
        with claim.claimed(place):
            yield
    except claim.Claimed as error:
        raise claim.Claimed(f"study {place.name}: {error}") from None


@contextlib.contextmanager
def _controller(
    study: Study, store: Store, project: Path, place: Path, once: bool, trainer: str
) -> Iterator[tuple[Controller, launch.Launcher]]:
    journal = Journal(study, place / "journal.log")
    if study.rules.narrow is not None and journal.get(records.RANKS) is None:
        journal.set(records.RANKS, narrow.ranks(study, store))
    composed = compose((*study.overrides, "baseline=mean"))
    settings = composed.settings
    if settings.cluster.launcher == "slurm":
        jobs = launch.Slurm(store, project, trainer)
        yield Controller(study, journal, StoreBackend(study, store, project, jobs)), jobs
        return
    warm = settings.platform == "cpu" and settings.cluster.fork_server and not once and trainer == freeze.TRAINER
    alike = {"config": to_plain(settings), "verl": reference.laid_over(reference.load(), composed.asked)}
    with forkserver.for_runs(alike, wanted=warm) as environment:
        here = launch.Local(store, place, project, detached=once, trainer=trainer, environment=environment)
        try:
            yield Controller(study, journal, StoreBackend(study, store, project, here)), here
        finally:
            if not once:
                here.stop(settings.cluster.grace_seconds + 20)


def _check_cap(study: Study, controller: Controller) -> None:
    budget, view = study.rules.budget, controller.view()
    least = (study.reserve() + 1) * view.run_hours
    if budget.gpu_hours is not None and not view.trials and least > budget.gpu_hours:
        raise HarnessError(
            f"{study.file.name}: budget.gpu_hours={budget.gpu_hours:g}: confirmation and one trial alone take about"
            f" {least:,.0f} (estimate); raise the cap, or lower confirm.trials, confirm.seeds or steps"
        )


def _loop(study: Study, controller: Controller, launcher: launch.Launcher, place: Path) -> str:
    """Ticks until the study is over or we are asked to stop; returns why it is over, '' when stopped."""
    stop = StopRequest()
    stop.install()
    renewed = time.monotonic()
    print(text.standing(study, controller.view()), flush=True)
    while not stop.count:
        claim.check(place)  # another controller may have thought us dead
        if time.monotonic() - renewed > claim.RENEW_SECONDS:
            claim.take(place)
            renewed = time.monotonic()
        acted = _tick(study, controller)
        if over := controller.view().over:
            return over
        until = time.monotonic() + (0.2 if acted else launcher.poll_seconds)
        while time.monotonic() < until and not stop.count and not launcher.ended():
            time.sleep(0.1)
    print(f"\ninterrupted; all is kept, the same command goes on: harness ksearch {study.name}")
    return ""


def _tick(study: Study, controller: Controller) -> bool:
    done = controller.tick()
    view = controller.view() if done else None
    for action in done:
        line = text.action(study, view, action) if view is not None else None
        if line:
            print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)
    return bool(done)


def plan(name: str, extra: Sequence[str] = ()) -> str:
    """What a study would do and may cost, and where it stands; changes nothing."""
    study, project = studies.load(name, extra), project_folder()
    store = Store.default(project)
    backend = _onlooker(study, store, project)
    path = folder(store, study.name) / "journal.log"
    begun, ranks = path.exists(), None
    if begun:
        ranks = Journal(study, path, reading=True).get(records.RANKS)
    elif study.rules.narrow is not None:
        ranks = narrow.ranks(study, store)
    hours = backend.hours((*study.overrides, "baseline=mean", f"seed={study.rules.seeds.first}"))
    return text.plan(study, hours, look(name, extra)[1] if begun else None, ranks)


def look(name: str, extra: Sequence[str] = ()) -> tuple[Study, View, list[FrozenTrial]]:
    """(the study, where it stands, Optuna's own trials), for who only reads. Raises: HarnessError before it began."""
    study, project = studies.load(name, extra), project_folder()
    store = Store.default(project)
    path = folder(store, study.name) / "journal.log"
    if not path.exists():
        raise HarnessError(
            f"study {study.name} has not begun in {store.root}: run `harness ksearch {study.name}` first"
        )
    journal = Journal(study, path, reading=True)
    return study, Controller(study, journal, _onlooker(study, store, project)).view(), journal.trials()


def standing(name: str) -> str:
    """One line: how far the study is. Empty where its file is gone or it has not begun."""
    try:
        study, view, _ = look(name)
    except HarnessError:
        return ""
    return f"study {study.name}, {text.standing(study, view)}: `harness plan {study.name}` says more"


def _onlooker(study: Study, store: Store, project: Path) -> StoreBackend:
    place = folder(store, study.name)
    return StoreBackend(study, store, project, launch.Local(store, place, project, detached=True, trainer=""))


def _report(study: Study, store: Store, project: Path) -> None:
    """The analysis runs in a process of its own, as after a sweep."""
    folders = {"HARNESS_RUNS": str(store.root), "HARNESS_REPORTS": str(project / "reports")}
    command = [sys.executable, "-m", "harness", "report", f"{grid.STUDIES}{study.name}"]
    print("\nreport:", flush=True)
    if subprocess.run(command, env={**folders, **os.environ}, check=False).returncode:
        print("the report was not written; the study is safe, try again: harness report " + study.name)
