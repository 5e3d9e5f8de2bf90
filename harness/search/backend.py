"""The real store and launcher, as a controller sees them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness import files
from harness.config import reference
from harness.config.compose import Composed, compose
from harness.config.grid import Sweep
from harness.errors import HarnessError
from harness.planning import gpu_hours
from harness.planning.plan import Planned
from harness.planning.signature import run_id, signature
from harness.running import cancel
from harness.search.launch import Launcher
from harness.search.measure import hours, measure
from harness.search.state import Look, Measure
from harness.search.study import Study
from harness.store import outcome_files
from harness.store.runs import RunState, Store

log = logging.getLogger(__name__)
Overrides = tuple[str, ...]


class StoreBackend:
    """See `harness.search.controller.Backend`."""

    def __init__(self, study: Study, store: Store, project: Path, launcher: Launcher) -> None:
        self._study, self._store, self._project, self._launcher = study, store, project, launcher
        self._composed: dict[Overrides, tuple[str, Composed, Mapping[str, object]]] = {}
        self._measures: dict[str, tuple[object, Measure]] = {}

    def identify(self, overrides: Overrides) -> str:
        """Composes the run; two K of one rank are one id."""
        return self._point(overrides)[0]

    def _point(self, overrides: Overrides) -> tuple[str, Composed, Mapping[str, object]]:
        if overrides not in self._composed:
            try:
                composed = compose(overrides)
                sig = signature(composed, self._project)
            except HarnessError as error:
                raise HarnessError(f"study {self._study.name}, {' '.join(overrides)}: {error}") from None
            self._composed[overrides] = (run_id(sig), composed, sig)
        return self._composed[overrides]

    def look(self, runs: Sequence[str]) -> Mapping[str, Look]:
        """State, measure and hours of each run."""
        if not runs:
            return {}
        return {run: self._look(run, state) for run, state in self._launcher.states(runs).items()}

    def _look(self, run: str, state: RunState) -> Look:
        if state.kind == "absent":
            return Look("absent")
        spec = self._store.spec(run)
        attempts = self._counted(run)
        failures = sum(a.get("outcome") in ("failed", "lost") for a in attempts)
        saved, stalled = self._store.checkpoint(run), 0
        for attempt in reversed(attempts):
            if int(str(attempt.get("from", -1))) != saved:
                break
            stalled += 1
        return Look(
            state.kind, state.step, state.total, failures, stalled, state.reason,
            hours(self._store, run, spec, state.kind == "running"), self._measure(run, state),
        )  # fmt: skip

    def _counted(self, run: str) -> list[dict[str, object]]:
        """The attempts since somebody last asked for a retry: what failed before was mended, or is hoped to be."""
        attempts = self._store.attempts(run)
        if all(a.get("outcome") in ("done", None) for a in attempts):
            return attempts
        try:
            events = files.read_json_lines(self._store.folder(run) / "events.jsonl")[0]
        except FileNotFoundError:
            return attempts
        return attempts[max((int(e["attempts"]) for e in events if e.get("event") == "retry asked"), default=0) :]

    def _measure(self, run: str, state: RunState) -> Measure:
        """Read again only when something new can be there."""
        folder = self._store.folder(run)
        evaluations = len(outcome_files.by_step(folder, "eval"))
        key = (state.kind, state.step, evaluations)
        known = self._measures.get(run)
        if known is not None and known[0] == key:
            return known[1]
        objective = self._study.rules.objective
        held = self._study.rules.held_out
        if held is not None and set(held.overrides) <= set(self._store.brief(run)["overrides"]):
            objective = replace(objective, benchmarks=())  # it is evaluated on others, and on all of them
        found = measure(folder, objective, self._study.rules.constraints, state.total)
        self._measures[run] = (key, found)
        return found

    def start(self, runs: Mapping[str, Overrides], known: Mapping[str, Overrides]) -> Collection[str]:
        """Files all runs of the study under its name and starts those of `runs` that there is room for."""
        states = self._launcher.states(list({*runs, *known}))
        entries, again = [], []
        for run, overrides in {**known, **runs}.items():
            identity, composed, sig = self._point(overrides)
            state = states[run]
            wanted = run in runs and state.kind not in ("done", "running", "queued", "unknown")
            if run in runs and identity != run:
                raise HarnessError(
                    f"study {self._study.name}: run {run} now composes to {identity}: conf/, the data or verl changed"
                    " since it was asked for; go on from that state of the checkout, or start a new study"
                )
            action = ("retry" if state.attempts else "add") if wanted else "same"
            if wanted and state.kind == "lost":
                again.append(run)
            varied = overrides[len(self._study.overrides) :]
            entries.append(Planned(run, composed, sig, varied, action, "asked for by the study", state))
        study = self._study
        sweep = Sweep(study.sweep, study.question, (), {"against": "mean"}, None, study.file)
        settled = [replace(e, state=replace(e.state, kind="unknown")) if e.id in again else e for e in entries]
        return self._launcher.start(sweep, settled, again)

    def cancel(self, runs: Sequence[str]) -> None:
        """Stops processes here and jobs of SLURM alike."""
        if runs:
            for run, told in cancel.cancel(self._store, runs).items():
                log.info("%s cancelled: %s", run, told)

    def hours(self, overrides: Overrides) -> float:
        """The estimate of harness/planning/gpu_hours.py; 0 without a GPU."""
        composed = compose(overrides)  # no signature: a plan may come before the data are prepared
        return gpu_hours.gpu_hours(composed.settings, reference.laid_over(reference.load(), composed.asked))
