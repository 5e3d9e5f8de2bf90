"""The controller against simulated trainings: what is killed when, what fails how, what it costs."""

from __future__ import annotations

import pytest

from harness import quantile
from harness.search.actions import Ask, Prune
from harness.search.controller import Controller
from harness.search.journal import Journal
from tests.support import search_world
from tests.support.search_world import STEPS, World, finish, peak

FOUR = {"rank": {"K": [0.2, 0.4, 0.6, 0.8]}}
SMALL = {
    "budget": {"runs": 14}, "seeds": {"most": 2}, "confirm": {"trials": 2, "seeds": 2, "compare": ["mean"]},
    "in_flight": 2,
}  # fmt: skip


def small(axes=FOUR, **rules):
    return search_world.study(axes=axes, **{**SMALL, **rules})


def rank(view, number):
    return next(t for t in view.trials if t.number == number).cell["rank"]


def test_the_winner_is_the_best_rank_and_was_named_by_fresh_seeds(tmp_path):
    world = World(peak(10, 0.05))
    view = finish(small(), world, tmp_path / "journal.log")
    assert view.over == "done"
    assert rank(view, view.winner) == 10
    assert {r.seed for r in view.groups[f"trial {view.winner}"]} == {1001, 1002}
    assert {r.seed for r in view.groups["mean"]} == {1001, 1002}
    assert len(world.runs) <= 14


def test_the_papers_rule_is_tried_first_and_no_rank_twice(tmp_path):
    world = World(peak(4, 0.05))
    study = search_world.study(budget={"runs": 40}, in_flight=3)
    view = finish(study, world, tmp_path / "journal.log")
    cells = [t.cell["rank"] for t in view.trials]
    assert cells[:2] == [7, 10]
    assert len(set(cells)) == len(cells)
    assert len(set(world.started)) == len(world.started)


def test_low_entropy_puts_06_first(tmp_path):
    view = finish(small(low_entropy=True), World(peak(10)), tmp_path / "journal.log")
    assert view.trials[0].cell["rank"] == 10


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid"])
def test_every_sampler_asks_for_new_cells_only(tmp_path, sampler):
    study = search_world.study(budget={"runs": 22}, sampler=sampler, in_flight=3)
    view = finish(study, World(peak(6)), tmp_path / "journal.log")
    cells = [t.cell["rank"] for t in view.trials]
    assert len(set(cells)) == len(cells) >= 4
    assert view.over == "done"


def test_a_continuous_axis_and_a_second_one(tmp_path):
    axes = {"rank": "all", "recipe.learning_rate": {"type": "float", "low": 1e-6, "high": 1e-4, "log": True}}
    study = search_world.study(axes=axes, budget={"runs": 20})
    assert study.sampler() == "tpe"
    view = finish(study, World(peak(7)), tmp_path / "journal.log")
    assert view.over == "done"
    assert all(1e-6 <= t.cell["recipe.learning_rate"] <= 1e-4 for t in view.trials)


def test_never_more_in_flight_than_allowed(tmp_path):
    world, study = World(peak(7)), search_world.study(budget={"runs": 40}, in_flight=3)
    controller = Controller(study, Journal(study, tmp_path / "journal.log"), world)
    for _ in range(200):
        controller.tick()
        assert sum(run.state in ("queued", "running") for run in world.runs.values()) <= 3
        world.advance()


def test_a_run_that_waits_for_room_is_neither_announced_nor_started_twice(tmp_path):
    class Small(World):
        def start(self, runs, known):
            live = sum(run.state in ("queued", "running") for run in self.runs.values())
            return super().start(dict(list(runs.items())[: max(0, 1 - live)]), known)

    world, study = Small(peak(10, 0.05)), small(in_flight=3)
    controller = Controller(study, Journal(study, tmp_path / "journal.log"), world)
    assert len(controller.tick()) == 3
    assert len(world.started) == 1
    assert controller.tick() == []  # the loop waits as long as where nothing happened
    view = finish(study, world, tmp_path / "journal.log")
    assert view.over == "done"
    assert rank(view, view.winner) == 10
    assert len(world.started) == len(set(world.started))


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def killing(monkeypatch, at: int, when: str):
    """Kills before, in the middle of, or after the at-th thing that is written to the journal or asked of the world."""
    from optuna.storages.journal import JournalFileBackend

    count = [0]
    append, start, cancel = JournalFileBackend.append_logs, World.start, World.cancel

    def due() -> bool:
        count[0] += 1
        return count[0] == at

    def append_logs(self, logs):
        now = due()
        if now and when == "before":
            raise Killed
        append(self, logs)
        if now and when == "torn":
            with open(self._file_path, "rb+") as file:
                file.seek(-5, 2)
                file.truncate()
        if now:
            raise Killed

    def around(act):
        def wrapped(self, *arguments):
            now = due()
            if now and when == "before":
                raise Killed
            found = act(self, *arguments)
            if now:
                raise Killed
            return found

        return wrapped

    monkeypatch.setattr(JournalFileBackend, "append_logs", append_logs)
    monkeypatch.setattr(World, "start", around(start))
    monkeypatch.setattr(World, "cancel", around(cancel))
    return count


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "torn", "after"])
def test_killed_at_any_point_it_goes_on_as_if_nothing_had_been(tmp_path, when):
    study = small(constraints={"entropy_low": 0.1})
    at, results = 0, set()
    while True:
        at += 1
        world, path = World(peak(10, 0.06)), tmp_path / f"{at}.log"
        with pytest.MonkeyPatch.context() as patch:
            count = killing(patch, at, when)
            try:
                view = finish(study, world, path)
            except Killed:
                view = finish(study, world, path)
        assert len(set(world.started)) == len(world.started), f"a run was started twice after a kill at {at}"
        cells = [t.cell["rank"] for t in view.trials]
        assert len(set(cells)) == len(cells)
        known = {r.run for r in view.everything()}
        assert known == set(world.runs)
        assert all(t.status != "open" for t in view.trials)
        assert len(world.runs) <= 14
        results.add((rank(view, view.winner), view.over))
        if count[0] < at:
            break
    assert at > 40
    assert results == {(10, "done")}


def test_a_study_that_changed_is_refused(tmp_path):
    from harness.errors import HarnessError

    Journal(small(), tmp_path / "journal.log")
    with pytest.raises(HarnessError, match="space changed since the study began"):
        Journal(small(axes={"rank": {"K": [0.2, 0.4]}}), tmp_path / "journal.log")


def test_runs_that_the_store_has_cost_nothing_and_are_not_started(tmp_path):
    world = World(peak(10, 0.05))
    study = small(pruning={"wilcoxon": False})
    first = finish(study, world, tmp_path / "first.log")
    count = len(world.started)
    again = finish(study, world, tmp_path / "second.log")
    assert len(world.started) == count
    assert again.started == 0
    assert again.spent == 0
    assert rank(again, again.winner) == rank(first, first.winner)


def test_a_failed_seed_is_tried_again_and_does_not_count_as_poor(tmp_path):
    world = World(peak(10, 0.05), fails=lambda rank, seed: int(rank == 10 and seed == 1))
    view = finish(small(), world, tmp_path / "journal.log")
    assert rank(view, view.winner) == 10
    assert max(world.started.count(run) for run in world.started) == 2


def test_a_seed_that_keeps_failing_is_replaced(tmp_path):
    world = World(peak(10, 0.05), fails=lambda rank, seed: 99 if rank == 10 and seed == 1 else 0)
    view = finish(small(), world, tmp_path / "journal.log")
    assert not [t for t in view.trials if t.open]
    assert rank(view, view.winner) == 10
    trial = next(t for t in view.trials if t.cell["rank"] == 10)
    assert [r.look.state for r in trial.runs][0] == "failed"


def test_a_trial_without_any_value_fails_and_the_others_go_on(tmp_path):
    world = World(peak(10, 0.05), fails=lambda rank, seed: 99 if rank == 10 else 0)
    view = finish(small(), world, tmp_path / "journal.log")
    failed = next(t for t in view.trials if t.cell["rank"] == 10)
    assert failed.status == "failed"
    assert "loss is nan" in failed.reason
    assert rank(view, view.winner) in (7, 13)


def test_the_search_does_not_end_while_a_failed_seed_is_being_replaced(tmp_path):
    world = World(peak(10, 0.05), fails=lambda rank, seed: 99 if rank == 13 else 0)
    study = small(in_flight=1, seeds={"most": 1, "retries": 0}, pruning={"wilcoxon": False})
    view = finish(study, world, tmp_path / "journal.log")
    assert not [t for t in view.trials if t.open]
    assert [t.cell["rank"] for t in view.trials if t.status == "failed"] == [13]


def test_nan_values_are_never_told(tmp_path):
    world = World(peak(10, 0.05), nan=lambda rank, seed: rank == 10)
    view = finish(small(), world, tmp_path / "journal.log")
    lost = next(t for t in view.trials if t.cell["rank"] == 10)
    assert lost.status == "failed"
    assert "no numbers" in lost.reason
    assert view.over == "done"


def test_when_nothing_gives_a_value_it_says_so(tmp_path):
    view = finish(small(), World(peak(10), fails=lambda rank, seed: 99), tmp_path / "journal.log")
    assert view.over == "no trial gave a value"


@pytest.mark.parametrize("word", ["stopped", "lost"])
def test_a_lost_job_is_started_again_and_given_up_when_it_never_gets_on(tmp_path, word):
    study, world = small(), World(peak(10, 0.05))
    controller = Controller(study, Journal(study, tmp_path / "journal.log"), world)
    controller.tick()
    world.advance()
    victim = world.started[0]
    for _ in range(8):
        if world.runs[victim].state == "running":
            world.runs[victim].state = word
        controller.tick()
        world.advance()
    assert 2 <= world.started.count(victim) <= 5
    if word == "stopped":
        assert world.started.count(victim) == 4


def test_an_unknown_job_is_neither_told_nor_started_again(tmp_path):
    study, world = small(in_flight=1), World(peak(10, 0.05))
    controller = Controller(study, Journal(study, tmp_path / "journal.log"), world)
    controller.tick()
    world.runs[world.started[0]].state = "unknown"
    for _ in range(5):
        assert controller.tick() == []


def test_a_run_far_behind_is_pruned_and_keeps_its_data(tmp_path):
    world = World(peak(7, 0.06))
    view = finish(small(in_flight=1), world, tmp_path / "journal.log")
    pruned = [t for t in view.trials if t.status == "pruned"]
    assert pruned
    for trial in pruned:
        assert "Wilcoxon" in trial.reason
        assert "behind trial" in trial.reason
        assert 0 < trial.runs[0].look.step < STEPS
        assert trial.runs[0].run in world.cancelled
    assert 7 not in {t.cell["rank"] for t in pruned}


def test_nothing_is_pruned_by_outcomes_when_that_is_off_or_too_early(tmp_path):
    off = finish(small(pruning={"wilcoxon": False}), World(peak(7, 0.06)), tmp_path / "off.log")
    late = finish(small(pruning={"after": 1.0}), World(peak(7, 0.06)), tmp_path / "late.log")
    assert not [t for t in (*off.trials, *late.trials) if t.status == "pruned"]


def test_entropy_collapse_is_pruned_even_for_the_best(tmp_path):
    world = World(peak(10, 0.05), sick=lambda rank: "entropy collapsed from step 4" if rank == 10 else "")
    view = finish(small(), world, tmp_path / "journal.log")
    pruned = next(t for t in view.trials if t.cell["rank"] == 10)
    assert (pruned.status, pruned.reason) == ("pruned", "entropy collapsed from step 4")
    assert rank(view, view.winner) != 10


def test_outside_the_entropy_range_a_trial_is_told_and_cannot_win(tmp_path):
    world = World(peak(10, 0.05), entropy=lambda rank: 0.05 if rank == 10 else 1.0)
    view = finish(small(constraints={"entropy_low": 0.1}), world, tmp_path / "journal.log")
    outside = next(t for t in view.trials if t.cell["rank"] == 10)
    assert outside.constraints["entropy_low"] == pytest.approx(0.05)
    assert rank(view, view.winner) != 10


def test_pass_k_is_held_against_the_mean_baseline(tmp_path):
    world = World(peak(10, 0.05), pass_k=lambda rank: 0.5 if rank == 10 else 0.8)
    view = finish(small(budget={"runs": 16}, constraints={"pass_k_drop": 0.1}), world, tmp_path / "journal.log")
    assert {r.seed for r in view.groups["mean"]} == {1, 1001, 1002}
    outside = next(t for t in view.trials if t.cell["rank"] == 10)
    assert outside.constraints["pass_k"] == pytest.approx(0.2)
    assert rank(view, view.winner) != 10


def test_while_the_baseline_is_late_no_trial_gets_more_seeds_than_it_may(tmp_path):
    """Trials are told once the baseline is there, which may be the last to end."""

    class Late(World):
        def advance(self):
            for run in self.runs.values():
                if self.rank(run) == 0 and run.step == 5 and len(self.started) < 8:
                    run.step -= 1
            super().advance()

    world = Late(peak(10, 0.01))
    study = small(budget={"runs": 20}, constraints={"pass_k_drop": 0.9}, in_flight=3, pruning={"wilcoxon": False})
    view = finish(study, world, tmp_path / "journal.log")
    assert len(view.trials) == 4
    assert max(len(t.runs) for t in view.trials) == study.rules.seeds.most == 2


def test_the_hours_cap_is_honoured_and_still_names_a_winner(tmp_path):
    world, cap = World(peak(10, 0.05), hours_a_step=0.1), 9.0
    study = small(budget={"runs": 40, "gpu_hours": cap}, seeds={"most": 8, "doubt": 50})
    view = finish(study, world, tmp_path / "journal.log")
    assert sum(run.step for run in world.runs.values()) * 0.1 <= cap
    assert view.winner is not None
    assert view.groups[f"trial {view.winner}"]


def test_when_runs_take_longer_than_estimated_they_are_cancelled_at_the_cap(tmp_path):
    world = World(peak(10, 0.05), hours_a_step=1.0)
    world.hours = lambda overrides: 1.0  # ten times too low
    study = small(budget={"runs": 40, "gpu_hours": 15.0})
    view = finish(study, world, tmp_path / "journal.log")
    assert view.over
    assert sum(run.step for run in world.runs.values()) <= 15 + study.rules.in_flight
    assert world.cancelled


def test_the_held_out_set_is_evaluated_for_the_winner_alone(tmp_path):
    held = {"overrides": ["evaluation=paper"], "seeds": 2}
    world = World(peak(10, 0.05))
    view = finish(small(budget={"runs": 18}, held_out=held), world, tmp_path / "journal.log")
    asked = [run.overrides for run in world.runs.values() if "evaluation=paper" in run.overrides]
    winner = quantile.short_level(rank(view, view.winner), 16)
    assert len(asked) == 2
    assert all(f"baseline.K={winner}" in overrides for overrides in asked)
    assert {r.seed for r in view.groups["held-out"]}.isdisjoint({1, 2, 1001, 1002})


def test_two_objectives_give_a_front(tmp_path):
    world = World(peak(13, 0.05), pass_k=lambda rank: 0.9 - 0.03 * rank, noise=0.0)
    study = small(objective={"multi": True}, confirm={"trials": 4, "seeds": 1, "compare": []})
    view = finish(study, world, tmp_path / "journal.log")
    assert {rank(view, number) for number in view.finalists} == {4, 7, 10, 13}
    assert all(len(t.values) == 2 for t in view.trials)


def test_a_poor_first_seed_ends_the_trial_and_the_best_get_more(tmp_path):
    study = small(pruning={"wilcoxon": False}, seeds={"most": 4}, budget={"runs": 20})
    view = finish(study, World(peak(10, 0.016)), tmp_path / "journal.log")
    seeds = {t.cell["rank"]: len(t.runs) for t in view.trials}
    assert seeds[4] == 1
    assert seeds[10] > 1


def test_the_same_view_gives_the_same_actions(tmp_path):
    from harness.search.decide import decide

    study, world = small(), World(peak(10, 0.05))
    controller = Controller(study, Journal(study, tmp_path / "journal.log"), world)
    for _ in range(60):
        view = controller.view()
        assert decide(study, view) == decide(study, view)
        controller.tick()
        world.advance()


def test_actions_of_one_tick_do_not_contradict_each_other(tmp_path):
    study, world = search_world.study(budget={"runs": 40}, in_flight=4), World(peak(7, 0.05))
    controller = Controller(study, Journal(study, tmp_path / "journal.log"), world)
    for _ in range(120):
        actions = controller.tick()
        told = [a.trial for a in actions if hasattr(a, "trial")]
        assert len(told) == len(set(told))
        pruned = {a.trial for a in actions if isinstance(a, Prune)}
        assert not pruned & {getattr(a, "to", None) for a in actions}
        assert not any(isinstance(a, Ask) for a in actions)
        world.advance()
