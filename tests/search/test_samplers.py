"""Which sampler is taken, and what every sampler must keep to: no experiment twice, however many are in flight."""

from __future__ import annotations

import pytest

from harness import quantile
from harness.search.controller import Controller
from harness.search.journal import Journal
from harness.search.space import read
from tests.support import search_world
from tests.support.search_world import World, finish, peak

pytestmark = pytest.mark.slow  # many trials, models or processes

NONE = {"trials": 1, "seeds": 0, "compare": []}
MIXED = {
    "recipe.group_size": {"type": "categorical", "choices": [4, 8, 16]},
    "K": {"type": "float", "low": 0.1, "high": 0.9},
    "recipe.clip_high": {"type": "float", "low": 0.2, "high": 0.3, "step": 0.02},
    "recipe.learning_rate": {"type": "float", "low": 1e-7, "high": 1e-5, "log": True},
}
SIZES = {key: MIXED[key] for key in ("recipe.group_size", "K")}


@pytest.mark.parametrize("runs,sampler", [(24, "grid"), (23, "tpe")])
def test_the_grid_is_taken_where_the_budget_holds_one_and_a_half_runs_a_rank(runs, sampler):
    assert search_world.study(budget={"runs": runs}, confirm=NONE).sampler() == sampler
    with_reserve = search_world.study(budget={"runs": runs + 6}, confirm={"trials": 2, "seeds": 3, "compare": []})
    assert with_reserve.sampler() == sampler
    assert search_world.study(budget={"runs": runs}, confirm=NONE, sampler="gp").sampler() == "gp"


def test_a_continuum_is_never_a_grid():
    study = search_world.study(axes=MIXED, budget={"runs": 10000}, confirm=NONE)
    assert study.space.cells() is None
    assert study.sampler() == "tpe"


@pytest.mark.parametrize("sampler,in_flight", [("tpe", 1), ("tpe", 7), ("gp", 7), ("random", 7), ("grid", 7)])
def test_every_rank_is_asked_for_once_also_with_many_in_flight(tmp_path, sampler, in_flight):
    study = search_world.study(
        budget={"runs": 16}, sampler=sampler, in_flight=in_flight, seeds={"most": 1}, confirm=NONE,
        pruning={"wilcoxon": False},
    )  # fmt: skip
    world = World(peak(6))
    view = finish(study, world, tmp_path / "journal.log")
    assert sorted(t.cell["rank"] for t in view.trials) == list(range(1, 17))
    assert len(world.started) == len(set(world.started)) == 16


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_what_is_in_flight_keeps_the_sampler_away(tmp_path, sampler, monkeypatch):
    """Constant liar: the running trials are handed to the sampler, so that two asks on end differ by more than luck."""
    import optuna

    seen = []
    kind = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler}[sampler]
    relative = kind.sample_relative

    def watched(self, study, trial, space):
        seen.append((getattr(self, "_constant_liar", True), [t.state.name for t in study.get_trials(deepcopy=False)]))
        return relative(self, study, trial, space)

    monkeypatch.setattr(kind, "sample_relative", watched)
    study = search_world.study(budget={"runs": 16}, sampler=sampler, in_flight=4, seeds={"most": 1}, confirm=NONE)
    finish(study, World(peak(6)), tmp_path / "journal.log")
    assert all(liar for liar, _ in seen)
    assert max(states.count("RUNNING") for _, states in seen) >= 3  # beside the one that is being drawn for


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_axes_of_every_kind_are_searched_together(tmp_path, sampler):
    study = search_world.study(axes=MIXED, budget={"runs": 26}, sampler=sampler, in_flight=3, seeds={"most": 2})
    world = World(lambda rank: 0.6 - 0.02 * abs(rank - 4))
    view = finish(study, world, tmp_path / "journal.log")
    assert view.over == "done"
    assert len(view.trials) > 6
    first = [run for t in view.trials for run in t.runs[:1]]
    assert len({r.run for r in first}) == len(first), "two trials are one experiment"
    for trial in view.trials:
        cell = trial.cell
        assert list(cell) == list(MIXED)
        G = cell["recipe.group_size"]
        rank, of = study.space.rank_of(cell)
        assert (rank, of) == (quantile.rank(f"{cell['K']:.6g}", G), G)
        low, high = quantile.interval(rank, G)
        assert study.space.name(cell).startswith(
            f"recipe.group_size={G}, rank {rank} of {G}, K in ({float(low):g}, {float(high):g}]"
        )
        assert 1e-7 <= cell["recipe.learning_rate"] <= 1e-5
        assert round(cell["recipe.clip_high"] / 0.02, 9) == round(cell["recipe.clip_high"] / 0.02)
        asked = dict(o.split("=") for o in study.space.overrides(cell))
        assert quantile.rank(asked["baseline.K"], int(asked["recipe.group_size"])) == rank


@pytest.mark.parametrize(
    "sampler,levels", [("gp", MIXED["K"]), ("tpe", MIXED["K"]), ("tpe", {**MIXED["K"], "step": 0.05})]
)
def test_where_the_group_size_is_searched_a_rank_of_each_size_is_one_cell(tmp_path, levels, sampler):
    axes = {**SIZES, "K": levels}
    study = search_world.study(
        axes=axes, budget={"runs": 40}, in_flight=5, seeds={"most": 1}, confirm=NONE, sampler=sampler,
        pruning={"wilcoxon": False},
    )  # fmt: skip
    cells = study.space.cells()
    ranks = [study.space.rank_of(cell) for cell in cells]
    assert len(set(ranks)) == len(ranks)
    reached = {
        (quantile.rank(f"{k / 100:g}", G), G) for G in (4, 8, 16) for k in range(10, 91, 5 if "step" in levels else 1)
    }
    assert set(ranks) == reached
    assert all(0.1 <= cell["K"] <= 0.9 for cell in cells)
    view = finish(study, World(peak(4)), tmp_path / "journal.log")
    assert sorted(study.space.rank_of(t.cell) for t in view.trials) == sorted(ranks)


@pytest.mark.parametrize("K,G,canonical", [(0.38, 16, 0.4), (0.4375, 16, 0.4), (0.11, 8, 0.1), (0.12, 16, 0.1)])
def test_two_K_of_one_rank_are_one_point(K, G, canonical):
    space = read(SIZES, 16, "exact", "s")
    assert space.canonical({"recipe.group_size": G, "K": K})["K"] == pytest.approx(canonical)


def test_linear_interpolation_searches_K_itself(tmp_path):
    axes = {"K": {"type": "float", "low": 0.1, "high": 0.9}}
    study = search_world.study(axes=axes, interpolation="linear", budget={"runs": 20}, in_flight=3, confirm=NONE)
    assert study.sampler() == "tpe"
    assert study.space.canonical({"K": 0.38}) == {"K": 0.38}
    assert study.space.name({"K": 0.38}) == "K=0.38"
    view = finish(study, World(peak(6), exact=False), tmp_path / "journal.log")
    levels = [t.cell["K"] for t in view.trials]
    assert levels[:2] == [0.4, 0.6]
    assert len({f"{K:.6g}" for K in levels}) == len(levels) > 8
    assert all(float(f"{K:.6g}") == K for K in levels), "the K that is told is the K that was trained"


def test_the_same_draw_comes_again_after_a_restart(tmp_path):
    study = search_world.study(axes=MIXED, budget={"runs": 40}, in_flight=4, confirm=NONE)
    world, path = World(peak(6)), tmp_path / "journal.log"
    for _ in range(40):
        Controller(study, Journal(study, path), world).tick()
        world.advance()
    once, again = Journal(study, path).propose(), Journal(study, path).propose()
    assert once == again
