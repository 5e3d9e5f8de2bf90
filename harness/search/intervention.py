"""Takes hold of a study: what `harness cancel` and `retry` do with one, or with runs of one."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Collection
from pathlib import Path

from harness.errors import HarnessError
from harness.search import journal as records
from harness.search import loop
from harness.search import study as studies
from harness.search.journal import Journal
from harness.search.state import View
from harness.search.study import Study
from harness.store import claim
from harness.store.runs import Store

_PATIENCE = 120.0
"""Seconds that a controller gets to save its runs and to let go of the study."""


# ---- cancel


def hold(store: Store, name: str) -> list[str]:
    """Stops the study's controller and keeps ticks of cron from going on. Its runs are cancelled by the caller.

    Returns what was done, for people. Raises: HarnessError where the controller is on another host or does not end.
    """
    study = studies.load(name)
    place = loop.folder(store, study.name)
    if not (place / "journal.log").exists():
        return []
    told = _stop_controller(study.name, place)
    with loop.held(place):
        journal = Journal(study, place / "journal.log")
        if not journal.get(records.OVER, ""):
            journal.set(records.PAUSED, True)
            told.append(f"study {study.name} is held: `harness ksearch {study.name}` goes on, ticks of cron do not")
    return told


def _stop_controller(name: str, place: Path) -> list[str]:
    owner = claim.owner(place)
    if owner is None:
        return []
    if owner.host != socket.gethostname():
        raise HarnessError(
            f"study {name} is carried out by {owner}: stop it there first, with Ctrl-C or kill {owner.pid}"
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(owner.pid, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE
    while claim.owner(place) is not None:
        if time.monotonic() > deadline:
            raise HarnessError(f"study {name}: {owner} was asked to stop and has not yet: try again in a minute")
        time.sleep(0.2)
    return [f"process {owner.pid}, which carried study {name} out, was asked to save and stop"]


# ---- retry


def retry(store: Store, name: str, runs: Collection[str]) -> int:
    """Lets the study try these runs again: what failed before counts no more. Returns the exit code.

    A trial that had failed gets a new number and keeps its runs. Raises: HarnessError where the study is over.
    """
    study, view, _ = loop.look(name)
    if view.over and view.finalists is not None:
        raise HarnessError(
            f"study {study.name} is over, a run that is tried again changes nothing in it: to search anew copy"
            f" {study.file} under another name; finished runs are taken over, not trained again"
        )
    taken = 0
    for run in runs:
        why = _out_of_reach(study, view, run)
        label = store.brief(run)["label"]
        if why:
            print(f"{run}  {label}: not tried again, {why}")
            continue
        store.event(run, "retry asked", attempts=len(store.attempts(run)))
        print(f"{run}  {label}: will be tried again")
        taken += 1
    if taken:
        print(_next(store, study))
    return 0


def _next(store: Store, study: Study) -> str:
    place = loop.folder(store, study.name)
    owner = claim.owner(place)
    if owner is not None:
        return f"{owner} carries the study out and starts them as soon as there is room"
    with loop.held(place):
        Journal(study, place / "journal.log").set(records.PAUSED, False)
    return f"`harness ksearch {study.name}`, or its next tick, goes on"


def _out_of_reach(study: Study, view: View, run: str) -> str:
    """Why the study has no use for a run any more; empty where it has."""
    if any(r.run == run for group in view.groups.values() for r in group):
        return ""
    mine = [t for t in view.trials if any(r.run == run for r in t.runs)]
    if not mine:
        return f"study {study.name} no longer asks for it"
    trial = mine[-1]
    if trial.status == "pruned":
        return f"trial {trial.number} was pruned: {trial.reason}"
    if trial.status == "complete":
        return f"trial {trial.number} has its value from other seeds"
    if view.finalists is not None:
        return "the search has ended and its finalists are being confirmed"
    return ""
