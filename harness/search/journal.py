"""The study's Optuna journal: which trials there are, what was told, and what comes next.

One process writes at a time (the controller holds the study's lock); anybody may read, optuna-dashboard too. A journal
file survives shared file systems and kills; a database does not.
"""

from __future__ import annotations

import contextlib
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError
from harness.search import logfile
from harness.search import space as spaces
from harness.search.space import Axis, Cell
from harness.search.study import Study

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

log = logging.getLogger(__name__)

RUNS, WHY, DEFINITION, GROUPS, ADOPTED, RANKS = "runs", "why", "definition", "groups", "adopted", "ranks"
FINALISTS, WINNER, OVER, NOTE = "finalists", "winner", "over", "note"
PAUSED, WHAT, AGAIN = "paused", "what", "again"


class Journal:
    """One open study."""

    def __init__(self, study: Study, path: Path, *, reading: bool = False) -> None:
        """Opens the study, or begins it. `reading` changes nothing: for who does not hold the study's lock.

        Raises: HarnessError where the study file asks for another study than the one that began.
        """
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._spec = study
        directions = [optuna.study.StudyDirection.MAXIMIZE] * (2 if study.rules.objective.multi else 1)
        if reading:
            storage = logfile.onlooker(path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            logfile.mend(path)
            storage = JournalStorage(JournalFileBackend(str(path)))
        known_studies = {found.study_name for found in storage.get_all_studies()}
        if study.name in known_studies:
            self._study: optuna.Study = optuna.load_study(study_name=study.name, storage=storage)
        elif reading:
            raise HarnessError(f"{path} holds no study {study.name}: run `harness ksearch {study.name}` first")
        else:
            self._study = optuna.create_study(storage=storage, study_name=study.name, directions=directions)
        known = self.get(DEFINITION)
        if reading:
            return
        if known is None:
            self._name_values()
            self.set(DEFINITION, dict(study.definition))
        elif known != _plain(study.definition):
            changed = [key for key, value in _plain(study.definition).items() if known.get(key) != value]
            raise HarnessError(
                f"{study.file.name}: {', '.join(changed)} changed since the study began, so its trials no longer"
                f" compare: give the file another name, or move {path.parent} away"
            )

        self._take_up()

    def _name_values(self) -> None:
        """So that optuna-dashboard says `pass@1` where it would say `Objective 0`."""
        objective = self._spec.rules.objective
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is marked experimental
            self._study.set_metric_names(["pass@1", f"pass@{objective.pass_k}"][: 1 + objective.multi])

    def _take_up(self) -> None:
        """Gives trials their values whose asker died between asking and that; the proposal is in the journal."""
        import optuna

        for found in self._study.get_trials(deepcopy=False):
            if found.state.name == "RUNNING" and set(found.params) != set(self._spec.space.keys):
                live = optuna.trial.Trial(self._study, found._trial_id)
                for axis in self._spec.space.axes:
                    _suggest(live, axis)

    # ---- what is known

    def get(self, key: str, default: Any = None) -> Any:
        """A record of the study."""
        return self._study.user_attrs.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Keeps a record of the study: plain JSON."""
        self._study.set_user_attr(key, value)

    def trials(self) -> list[FrozenTrial]:
        """All trials that were asked for, those still waiting to be taken up left out."""
        keys = set(self._spec.space.keys)
        return [
            t for t in self._study.get_trials(deepcopy=False) if t.state.name != "WAITING" and set(t.params) == keys
        ]

    def waiting(self) -> bool:
        """Whether a proposal was written whose asker died before it was taken up."""
        return any(t.state.name == "WAITING" for t in self._study.get_trials(deepcopy=False))

    def cells_left(self) -> list[Cell] | None:
        """Cells without a trial, None for a continuum."""
        cells = self._cells()
        if cells is None:
            return None
        taken = [dict(t.params) for t in self.trials()]
        return [cell for cell in cells if cell not in taken]

    def _cells(self) -> list[Cell] | None:
        cells = self._spec.space.cells()
        ranks = self.get(RANKS)
        if cells is None or ranks is None:
            return cells
        return [cell for cell in cells if cell.get(spaces.RANK) in ranks]

    def left_out(self) -> int:
        """How many cells a replay spoke against when the study began."""
        return len(self._spec.space.cells() or ()) - len(self._cells() or ())

    def sampler(self) -> str:
        """Name of the sampler, by what the budget holds of the cells that are left."""
        return self._spec.sampler(self.left_out())

    # ---- what is written

    def ask(self) -> FrozenTrial | None:
        """The next trial: a proposal that waits, else a new one; None where every cell has a trial."""
        if not self.waiting():
            proposal = self.propose()
            if proposal is None:
                return None
            cell, why = proposal
            self._enqueue(cell, {WHY: why})
        return self._take()

    def again(self, number: int) -> FrozenTrial:
        """A new trial in place of one that failed, with its runs; Optuna opens no trial twice."""
        if not self.waiting():
            old = self._frozen(number)
            runs = dict(old.user_attrs.get(RUNS, {}))
            self._enqueue(dict(old.params), {WHY: f"trial {number} again", AGAIN: number, RUNS: runs})
        return self._take()

    def _enqueue(self, cell: Cell, attributes: Mapping[str, Any]) -> None:
        self._study.enqueue_trial(cell, user_attrs={WHAT: self._spec.space.name(cell), **attributes})

    def _take(self) -> FrozenTrial:
        trial = self._study.ask(self._distributions())
        return next(t for t in self.trials() if t.number == trial.number)

    def propose(self) -> tuple[Cell, str] | None:
        """(a cell that no trial has, why this one); None where there is none left."""
        left = self.cells_left()
        if left == []:
            return None
        start = [0.6, 0.4] if self._spec.rules.low_entropy else [0.4, 0.6]
        paper = [self._spec.space.paper(K) for K in start]
        if left is None:
            taken = [dict(t.params) for t in self.trials()]
            for cell in paper:
                if cell is not None and cell not in taken:
                    return cell, "the paper's rule"
            return self._sampled(), self.sampler()
        for cell in paper:
            if cell in left:
                return cell, "the paper's rule"
        if self.sampler() == "grid":
            return spaces.grid_order(left, [])[0], "grid"
        drawn = self._sampled()
        if drawn in left:
            return drawn, self.sampler()
        return min(left, key=lambda cell: self._distance(cell, drawn)), f"{self.sampler()}, nearest new cell"

    def _sampled(self) -> Cell:
        """What the sampler would try next, drawn in memory so that a cell that has a trial leaves no mark."""
        import optuna

        memory = optuna.create_study(directions=self._study.directions, sampler=self._sampler())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            memory.add_trials([t for t in self.trials() if t.state.name != "FAIL"])
        with _one_thread(self.sampler() == "gp"):
            drawn = dict(memory.ask(self._distributions()).params)
        return self._spec.space.canonical({axis.key: axis.snapped(drawn[axis.key]) for axis in self._spec.space.axes})

    def _sampler(self) -> optuna.samplers.BaseSampler:
        import optuna

        seed = self._spec.rules.sampler_seed + len(self.trials())  # the same draw again after a restart
        name = self.sampler()
        if name == "random":
            return optuna.samplers.RandomSampler(seed=seed)
        startup = max(4, self._spec.rules.budget.runs // 4)
        if name == "gp":
            try:
                import torch  # noqa: F401
            except ImportError:
                raise HarnessError("sampler=gp needs torch, which is not installed here: take tpe") from None
            return optuna.samplers.GPSampler(seed=seed, n_startup_trials=startup)
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)  # multivariate, constant liar

    def _distributions(self) -> dict[str, BaseDistribution]:
        return {axis.key: distribution(axis) for axis in self._spec.space.axes}

    def _distance(self, a: Cell, b: Cell) -> float:
        return sum(abs(axis.share(a[axis.key]) - axis.share(b[axis.key])) for axis in self._spec.space.axes)

    def note(self, number: int, key: str, value: Any) -> None:
        """Keeps a record of a trial: plain JSON."""
        self._live(number).set_user_attr(key, value)

    def report(self, number: int, points: Mapping[int, float]) -> None:
        """Intermediate values, for the dashboard and the sampler; each step once."""
        if self._spec.rules.objective.multi:
            return  # Optuna has none for several objectives
        known = self._frozen(number).intermediate_values
        live = self._live(number)
        for step in sorted(set(points) - set(known)):
            if math.isfinite(points[step]):
                live.report(points[step], step)

    def tell(self, number: int, values: Sequence[float], constraints: Mapping[str, float]) -> None:
        """A trial's value, once."""
        live = self._live(number)
        known = self._frozen(number).constraints
        for key, value in constraints.items():
            if key not in known:
                live.set_constraint(key, value)
        self._study.tell(number, values=list(values))

    def end(self, number: int, state: str, reason: str) -> None:
        """Ends a trial as `PRUNED` or `FAIL`."""
        import optuna

        self.note(number, NOTE, reason)
        self._study.tell(number, state=optuna.trial.TrialState[state])

    def _frozen(self, number: int) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number]

    def _live(self, number: int) -> optuna.trial.Trial:
        import optuna

        # Optuna gives a Trial only to who asked; after a restart that is another process.
        return optuna.trial.Trial(self._study, self._frozen(number)._trial_id)


@contextlib.contextmanager
def _one_thread(wanted: bool) -> Iterator[None]:
    """A Gaussian process over a few dozen trials is small: threads only wait for each other, and for other users."""
    if not wanted:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def distribution(axis: Axis) -> BaseDistribution:
    """The axis as Optuna's distribution."""
    from optuna import distributions

    if axis.kind == "categorical":
        return distributions.CategoricalDistribution(axis.choices)
    if axis.kind == "int":
        return distributions.IntDistribution(int(axis.low), int(axis.high), log=axis.log, step=int(axis.step or 1))
    return distributions.FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)


def _suggest(live: optuna.trial.Trial, axis: Axis) -> None:
    if axis.kind == "categorical":
        live.suggest_categorical(axis.key, axis.choices)
    elif axis.kind == "int":
        live.suggest_int(axis.key, int(axis.low), int(axis.high), log=axis.log, step=int(axis.step or 1))
    else:
        live.suggest_float(axis.key, axis.low, axis.high, log=axis.log, step=axis.step)


def _plain(value: Any) -> Any:
    import json

    return json.loads(json.dumps(value))
