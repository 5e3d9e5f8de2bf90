"""What a study does next, from what is known now. Pure: the same view gives the same actions.

Searching, every trial gets its first seed; a run far behind is pruned, and seeds are added one by one to the trials
that may still be the best. Then the best few get fresh seeds, by which the winner is named; the winner alone is
evaluated on the held-out benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence

from harness.search import ranking
from harness.search.actions import Action, Add, Again, Ask, Cancel, Fail, Finalists, Over, Prune, Start, Tell, Winner
from harness.search.state import SeedRun, Trial, View
from harness.search.study import Rules, Study

MOST_STALLED = 4
"""Attempts without a new checkpoint after which a run that keeps being stopped is given up."""


def dead(run: SeedRun, retries: int) -> bool:
    """Whether a run is given up: it failed too often, keeps being stopped, or ended without a value."""
    look = run.look
    if look.state == "failed":
        return look.failures > retries
    if look.state in ("stopped", "lost"):
        return look.stalled >= MOST_STALLED
    return False


def decide(study: Study, view: View) -> list[Action]:
    """The actions of one tick, in the order in which they are to be done."""
    planner = _Planner(study, view)
    if view.over:  # a study that ended without any value goes on when somebody retries its runs
        return list(planner.again()) if view.finalists is None else []
    cap = study.rules.budget.gpu_hours
    if cap is not None and view.spent >= cap and any(r.live for r in view.everything()):
        return [Cancel(r.run, f"the cap of {cap:g} GPU-hours is reached") for r in view.everything() if r.live]
    if view.finalists is None:
        return list(planner.searching())
    if view.winner is None:
        return list(planner.confirming())
    return list(planner.holding_out())


class _Planner:
    """Counts what one tick may still start. Lives for one decision."""

    def __init__(self, study: Study, view: View) -> None:
        self._study, self._rules, self._view = study, study.rules, view
        self._free = study.rules.in_flight - sum(r.live for r in view.everything())
        self._new = 0
        cap = study.rules.budget.gpu_hours
        self._capped = cap is not None and view.spent + view.committed >= cap
        """Nothing more is started, what has stopped stays so."""

    def _room(self, reserve: int) -> bool:
        """Whether one more new run leaves enough for what must follow."""
        view, budget = self._view, self._rules.budget
        if view.started + self._new + 1 + reserve > budget.runs:
            return False
        if budget.gpu_hours is None:
            return True
        ahead = view.committed + (self._new + 1 + reserve) * view.run_hours
        return view.spent + ahead <= budget.gpu_hours * (1 + 1e-9)

    def _add(self, to: int | str, seed: int, reserve: int) -> Iterator[Action]:
        if self._free > 0 and self._room(reserve):
            self._free -= 1
            self._new += 1
            yield Add(to, seed)

    def _tend(self, runs: Sequence[SeedRun]) -> Iterator[Action]:
        """Starts again what ended before it was done."""
        for run in runs:
            if run.live or self._settled(run) or self._free <= 0:
                continue
            self._free -= 1
            yield Start(run.run)

    def _settled(self, run: SeedRun) -> bool:
        """Whether nothing more is to be expected of it."""
        if run.live:
            return False
        sick = self._rules.pruning.health and bool(run.look.measure.health)
        return run.look.state == "done" or sick or self._capped or dead(run, self._rules.seeds.retries)

    # ---- searching

    def again(self) -> Iterator[Action]:
        """Failed trials whose runs may be tried again: somebody asked for it after the cause was mended."""
        for trial in self._view.trials:
            if trial.status == "failed" and any(not self._settled(r) for r in trial.runs):
                yield Again(trial.number)

    def searching(self) -> Iterator[Action]:
        """Trials, one seed at a time."""
        view, rules = self._view, self._rules
        reserve = self._study.reserve()
        baseline = view.groups.get("mean", ())
        if rules.constraints.pass_k_drop is not None:
            if not baseline:
                yield from self._add("mean", rules.seeds.first, reserve)
            yield from self._tend(baseline)
        leader = ranking.best(view.trials, rules, baseline)
        sd = ranking.seed_sd(view.trials, rules)
        resting: list[Trial] = []
        revived = list(self.again())
        yield from revived
        busy = bool(revived) or bool(baseline) and not all(map(self._settled, baseline))
        for trial in view.trials:
            if not trial.open:
                continue
            actions = list(self._tend_trial(trial, leader, sd))
            yield from actions
            if any(isinstance(a, Prune | Fail) for a in actions):
                continue
            if actions or not all(map(self._settled, trial.runs)) or not ranking.good(trial.runs, rules):
                busy = True
            else:
                resting.append(trial)
        yield from self._rest(resting, leader, sd, busy)

    def _tend_trial(self, trial: Trial, leader: Trial | None, sd: float) -> Iterator[Action]:
        rules = self._rules
        if not trial.runs:  # its controller died between asking and starting
            if self._room(self._study.reserve()):
                yield from self._add(trial.number, rules.seeds.first, self._study.reserve())
            else:
                yield Fail(trial.number, "the budget was used up before it began")
            return
        for run in trial.runs:
            first = run is trial.runs[0] and run.look.state != "done"
            if first and (why := ranking.prune(trial, leader, sd, rules)):
                yield Prune(trial.number, why)
                return
            if run.live and rules.pruning.health and run.look.measure.health:
                yield Cancel(run.run, run.look.measure.health)
        yield from self._tend(trial.runs)
        if all(map(self._settled, trial.runs)) and not ranking.good(trial.runs, rules):
            last = trial.runs[-1].look
            why = last.reason or ("its evaluations are no numbers" if last.state == "done" else last.state)
            if len(trial.runs) > 1:
                yield Fail(trial.number, f"{len(trial.runs)} seeds without a value: {why}")
            elif self._room(self._study.reserve()):
                yield from self._add(trial.number, self._next_seed(trial), self._study.reserve())
            else:
                yield Fail(trial.number, why)

    def _next_seed(self, trial: Trial) -> int:
        return max(r.seed for r in trial.runs) + 1

    def _rest(self, resting: list[Trial], leader: Trial | None, sd: float, busy: bool) -> Iterator[Action]:
        """Trials whose runs have all ended: told, or given another seed; then new ones."""
        view, rules = self._view, self._rules
        reserve, grid = self._study.reserve(), self._study.sampler(view.left_out) == "grid"
        ready = not (rules.constraints.pass_k_drop is not None and self._baseline_open())
        keep: list[Trial] = []
        enough: list[Trial] = []  # told as soon as the baseline that they are held against is there
        for trial in resting:
            full = len(ranking.good(trial.runs, rules)) >= rules.seeds.most or len(trial.runs) > rules.seeds.most
            outside = any(v > 0 for v in ranking.violations(trial, rules, view.groups.get("mean")).values())
            if not (full or outside or ranking.poor(trial, leader, sd * (1.0 if grid else 0.5), rules)):
                keep.append(trial)
            elif ready:
                yield self._tell(trial)
            else:
                enough.append(trial)
        keep.sort(key=lambda t: -(ranking.mean(t, rules) + sd / math.sqrt(len(ranking.good(t.runs, rules)))))
        asked = 0
        if grid:  # breadth first: which trials deserve a second seed is known once all have one
            asked = yield from self._ask(reserve)
        fresh_pending = grid and (asked or any(t.open and not ranking.good(t.runs, rules) for t in view.trials))
        added = 0
        for trial in keep:
            alone = len(keep) == 1 and not enough and not busy and not asked and not self._cells_open()
            if fresh_pending or alone:
                break
            for action in self._add(trial.number, self._next_seed(trial), reserve):
                added += 1
                yield action
        if not grid:
            asked = yield from self._ask(reserve)
        if busy or added or asked or not ready or self._free <= 0:
            return
        # nothing runs and nothing more can be started: the search has ended
        for trial in keep:
            yield self._tell(trial)
        yield self._finalists()

    def _baseline_open(self) -> bool:
        found = self._view.groups.get("mean", ())
        return not found or not all(map(self._settled, found))

    def _cells_open(self) -> bool:
        return self._view.waiting or self._view.cells_left is None or self._view.cells_left > 0

    def _ask(self, reserve: int) -> Generator[Action, None, int]:
        asked = 0
        left = self._view.cells_left
        while (
            self._free > 0
            and self._room(reserve)
            and (left is None or asked < left or self._view.waiting and not asked)
        ):
            self._free -= 1
            self._new += 1
            asked += 1
            yield Ask()
        return asked

    def _tell(self, trial: Trial) -> Action:
        found = ranking.violations(trial, self._rules, self._view.groups.get("mean"))
        return Tell(trial.number, ranking.values(trial, self._rules), found)

    def _finalists(self) -> Action:
        rules, view = self._rules, self._view
        scored = [t for t in view.trials if t.status in ("open", "complete") and ranking.good(t.runs, rules)]
        inside = [
            t for t in scored if not any(v > 0 for v in ranking.violations(t, rules, view.groups.get("mean")).values())
        ]
        note = "" if inside or not scored else "no trial keeps to the constraints: the best by value go on"
        ranked = sorted(inside or scored, key=lambda t: (-ranking.mean(t, rules), t.number))
        if not ranked:
            return Over("no trial gave a value")
        chosen = _front(ranked, rules) if rules.objective.multi else ranked
        sd = ranking.seed_sd(view.trials, rules)
        if not rules.objective.multi:
            chosen = [t for t in chosen if not ranking.poor(t, ranked[0], sd, rules)]
        return Finalists(tuple(t.number for t in chosen[: rules.confirm.trials]), note or self._why_ended())

    def _why_ended(self) -> str:
        if not self._room(self._study.reserve()):
            return "the budget of the search is used up"
        return "no other trial can still be the best"

    # ---- confirming

    def confirming(self) -> Iterator[Action]:
        """Fresh seeds for the finalists and for what they are compared with."""
        rules, view = self._rules, self._view
        confirm = rules.confirm
        fresh = range(confirm.first, confirm.first + confirm.seeds)
        names = [f"trial {n}" for n in view.finalists or ()] + self._compared()
        held = rules.held_out.seeds if rules.held_out else 0
        waiting = False
        for i, seed in enumerate(fresh):
            for name in names:
                if any(r.seed == seed for r in view.groups.get(name, ())):
                    continue
                must = 0 if i == 0 or name.startswith("trial") else held
                added = list(self._add(name, seed, must))
                yield from added
                waiting = waiting or bool(added) or self._free <= 0 and self._room(must)
        runs = [r for name in names for r in view.groups.get(name, ()) if r.seed in fresh]
        started = list(self._tend(runs))
        yield from started
        if waiting or started or not all(map(self._settled, runs)):
            return
        yield Winner(best_of(view, rules))

    def _compared(self) -> list[str]:
        return list(self._rules.confirm.compare)

    # ---- held out

    def holding_out(self) -> Iterator[Action]:
        """The winner alone, on the benchmarks that no choice was made by."""
        held, view = self._rules.held_out, self._view
        if held is None:
            yield Over("done")
            return
        runs = view.groups.get("held-out", ())
        first = self._rules.confirm.first + self._rules.confirm.seeds
        waiting = False
        for seed in range(first, first + held.seeds):
            if not any(r.seed == seed for r in runs):
                added = list(self._add("held-out", seed, 0))
                yield from added
                waiting = waiting or bool(added) or self._free <= 0 and self._room(0)
        started = list(self._tend(runs))
        yield from started
        if not waiting and not started and all(map(self._settled, runs)):
            yield Over("done")


def best_of(view: View, rules: Rules) -> int:
    """The finalist of the highest mean over all of its seeds, fresh ones included; its value is that of the fresh ones.

    Naming it by all seeds makes the better choice; reporting only seeds that did not bring it here keeps the value
    free of the luck that did.
    """
    scored = []
    for number in view.finalists or ():
        trial = next(t for t in view.trials if t.number == number)
        found = ranking.good((*trial.runs, *view.groups.get(f"trial {number}", ())), rules)
        scored.append((sum(found) / len(found) if found else -math.inf, -number))
    return -max(scored)[1]


def _front(ranked: Sequence[Trial], rules: Rules) -> list[Trial]:
    """The trials that none beats in both objectives."""
    points = {t.number: ranking.values(t, rules) for t in ranked}

    def beaten(point: tuple[float, ...]) -> bool:
        return any(o != point and all(a >= b for a, b in zip(o, point, strict=True)) for o in points.values())

    return [t for t in ranked if not beaten(points[t.number])]
