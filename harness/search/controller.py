"""One tick of a study: look, decide, act. All state is in the journal and the run store: any tick may be the last."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from harness.search import journal as names
from harness.search.actions import Action, Add, Again, Ask, Cancel, Fail, Finalists, Over, Prune, Start, Tell, Winner
from harness.search.decide import decide
from harness.search.journal import Journal
from harness.search.state import Look, SeedRun, Trial, View
from harness.search.study import Study

log = logging.getLogger(__name__)
_STATUS = {"RUNNING": "open", "COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
Overrides = tuple[str, ...]


class Backend(Protocol):
    """Where runs live: the store and a launcher, or a simulation of them."""

    def identify(self, overrides: Overrides) -> str:
        """The id of the run that these overrides compose to. Changes nothing."""

    def look(self, runs: Sequence[str]) -> Mapping[str, Look]:
        """The state of each run, and what it has measured so far."""

    def start(self, runs: Mapping[str, Overrides], known: Mapping[str, Overrides]) -> Collection[str]:
        """Freezes and starts runs that are not done; one that somebody works on is left alone.

        Args:
            known: all runs of the study, for the record.

        Returns: those that were started; for the others there is no room yet.
        """

    def cancel(self, runs: Sequence[str]) -> None:
        """Stops runs; they keep what they have."""

    def hours(self, overrides: Overrides) -> float:
        """GPU-hours that a run will take, an estimate; 0 where there is none."""


class Controller:
    """Carries a study out on a backend. Holds nothing that it could not read again."""

    def __init__(self, study: Study, journal: Journal, backend: Backend) -> None:
        self._study, self._journal, self._backend = study, journal, backend

    def view(self) -> View:
        """Everything as it is now."""
        trials = self._journal.trials()
        groups = self._groups()
        runs = [run for t in trials for run in self._runs(t).values()] + [
            r for g in groups.values() for r in g.values()
        ]
        looks = self._backend.look(list(dict.fromkeys(runs)))
        again = {t.user_attrs[names.AGAIN]: t.number for t in trials if names.AGAIN in t.user_attrs}
        found = tuple(
            Trial(
                t.number, dict(t.params), _STATUS[t.state.name],
                () if t.number in again else _seeds(self._runs(t), looks),  # its runs are the later trial's
                tuple(t.values or ()) if t.state.name == "COMPLETE" else (), dict(t.constraints),
                str(t.user_attrs.get(names.NOTE, ""))
                + (f"; tried again as trial {again[t.number]}" if t.number in again else ""),
            )
            for t in trials
        )  # fmt: skip
        left = self._journal.cells_left()
        finalists = self._journal.get(names.FINALISTS)
        return View(
            found, {name: _seeds(group, looks) for name, group in groups.items()}, None if left is None else len(left),
            self._journal.waiting(), None if finalists is None else tuple(finalists), self._journal.get(names.WINNER),
            self._journal.get(names.OVER, ""), self._journal.left_out(), self._run_hours(looks),
            frozenset(self._journal.get(names.ADOPTED, ())),
        )  # fmt: skip

    def resume(self, *, by_hand: bool) -> bool:
        """Whether the study may go on: one that was cancelled waits for a person's word."""
        if not self._journal.get(names.PAUSED, False):
            return True
        if by_hand:
            self._journal.set(names.PAUSED, False)
        return by_hand

    def _run_hours(self, looks: Mapping[str, Look]) -> float:
        """The mean of the finished runs, else the estimate."""
        done = [look.hours for look in looks.values() if look.state == "done" and look.hours > 0]
        if done:
            return sum(done) / len(done)
        return self._backend.hours((*self._study.overrides, "baseline=mean", f"seed={self._study.rules.seeds.first}"))

    def _groups(self) -> dict[str, dict[str, str]]:
        return dict(self._journal.get(names.GROUPS, {}))

    def _runs(self, trial: object) -> dict[str, str]:
        return dict(getattr(trial, "user_attrs", {}).get(names.RUNS, {}))

    def tick(self) -> list[Action]:
        """Looks, decides and acts once; returns what was done."""
        view = self.view()
        for trial in view.trials:
            if trial.open and trial.runs:
                self._journal.report(trial.number, trial.runs[0].look.measure.points)
        actions = decide(self._study, view)
        wanted: dict[str, Overrides] = {}
        done = []
        for action in actions:
            log.info("%s", action)
            done.append(self._act(action, view, wanted))
        if wanted:  # together: one array on a cluster
            started = self._backend.start(wanted, self.known())
            done = [a for a in done if not isinstance(a, Start) or a.run in started]
        return done

    def _act(self, action: Action, view: View, wanted: dict[str, Overrides]) -> Action:
        """Returns what was done: of a new trial, its number and seed."""
        if isinstance(action, Ask):
            asked = self._journal.ask()
            if asked is not None:
                action = Add(asked.number, self._study.rules.seeds.first)
                self._add(asked.number, action.seed, wanted)
        elif isinstance(action, Again):
            if view.over:
                self._journal.set(names.OVER, "")
            self._journal.again(action.trial)
        elif isinstance(action, Add):
            self._add(action.to, action.seed, wanted)
        elif isinstance(action, Start):
            wanted[action.run] = self.known()[action.run]
        elif isinstance(action, Tell):
            self._journal.tell(action.trial, action.values, action.constraints)
        elif isinstance(action, Prune):
            trial = next(t for t in view.trials if t.number == action.trial)
            self._backend.cancel([r.run for r in trial.runs if r.live])
            self._journal.end(action.trial, "PRUNED", action.reason)
        elif isinstance(action, Fail):
            self._journal.end(action.trial, "FAIL", action.reason)
        elif isinstance(action, Cancel):
            self._backend.cancel([action.run])
        elif isinstance(action, Finalists):
            self._journal.set(names.NOTE, action.reason)
            self._journal.set(names.FINALISTS, list(action.trials))
        elif isinstance(action, Winner):
            self._journal.set(names.WINNER, action.trial)
        elif isinstance(action, Over):
            self._journal.set(names.OVER, action.reason)
        return action

    def _add(self, to: int | str, seed: int, wanted: dict[str, Overrides]) -> None:
        """Notes the run first and starts it then: a kill in between leaves a run that is known and never started."""
        overrides = self.overrides(to, seed)
        run = self._backend.identify(overrides)
        look = self._backend.look([run])[run]
        if look.state == "done" and run not in self.known():  # trained before the study asked for it
            self._journal.set(names.ADOPTED, [*self._journal.get(names.ADOPTED, ()), run])
        if isinstance(to, int):
            trial = next(t for t in self._journal.trials() if t.number == to)
            self._journal.note(to, names.RUNS, {**self._runs(trial), str(seed): run})
        else:
            groups = self._groups()
            self._journal.set(names.GROUPS, {**groups, to: {**groups.get(to, {}), str(seed): run}})
        if look.state != "done":
            wanted[run] = overrides

    def overrides(self, to: int | str, seed: int) -> Overrides:
        """What composes a run of a trial (its number) or of a group (its name)."""
        common = self._study.overrides
        if to == "mean":
            return (*common, "baseline=mean", f"seed={seed}")
        if to == "paper":
            return (*common, "baseline=qae", "baseline.K=0.4", f"seed={seed}")
        if to == "held-out":
            held = self._study.rules.held_out
            extra = held.overrides if held else ()
            return (*common, *extra, *self._cell(self._journal.get(names.WINNER)), f"seed={seed}")
        number = to if isinstance(to, int) else int(to.removeprefix("trial "))
        return (*common, *self._cell(number), f"seed={seed}")

    def _cell(self, number: int) -> Overrides:
        trial = next(t for t in self._journal.trials() if t.number == number)
        return self._study.space.overrides(dict(trial.params))

    def known(self) -> dict[str, Overrides]:
        """Every run that the journal knows, with what composes it."""
        found = {}
        for trial in self._journal.trials():
            for seed, run in self._runs(trial).items():
                found[run] = self.overrides(trial.number, int(seed))
        for name, group in self._groups().items():
            for seed, run in group.items():
                found[run] = self.overrides(name, int(seed))
        return found


def _seeds(runs: Mapping[str, str], looks: Mapping[str, Look]) -> tuple[SeedRun, ...]:
    return tuple(SeedRun(int(seed), run, looks[run]) for seed, run in sorted(runs.items(), key=lambda i: int(i[0])))
