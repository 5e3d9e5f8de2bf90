from __future__ import annotations

import pytest

from harness import quantile
from harness.config import grid
from harness.errors import HarnessError
from harness.search import space, study
from harness.search.space import spread

GOOD = """
overrides: [model=tiny, steps=4, evaluation.every=2]
space: {rank: all}
budget: {runs: 60}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "folder", lambda: tmp_path)
    (tmp_path / "search").mkdir()

    def written(text: str, name: str = "s"):
        (tmp_path / "search" / f"{name}.yaml").write_text(text)
        return study.load(name)

    return written


def test_a_study_file_is_typed_and_has_defaults(write):
    found = write(GOOD)
    assert found.space.cells() == [{"rank": r} for r in range(1, 17)]
    assert found.rules.confirm.compare == ("mean", "paper")
    assert found.reserve() == 15
    assert found.sampler() == "grid"
    assert write(GOOD.replace("60", "30")).sampler() == "tpe"


@pytest.mark.parametrize(
    "change,words",
    [
        (("space: {rank: all}", ""), "space=None: give at least one axis"),
        (("rank: all", "rank: some"), "use all, {low: 3, high: 12}"),
        (("rank: all", "rank: {low: 3, high: 19}"), "ranks run from 1 to 16"),
        (("rank: all", "K: {type: float, low: 0.1, high: 0.9}"), "search rank instead of K"),
        (("rank: all", "recipe.clip_high: {type: flat, low: 0.1, high: 0.9}"), "give a type"),
        (("rank: all", "recipe.clip_high: {type: float, low: 0.9, high: 0.1}"), "must be below high"),
        (("rank: all", "recipe.clip_high: {type: float, low: 0.1, hgh: 0.9}"), "did you mean high?"),
        (("budget", "bugdet"), "did you mean budget?"),
        (("runs: 60", "runs: 0"), "budget.runs=0: at least 1"),
        (("runs: 60", "runs: 10"), "confirmation and held-out evaluation alone take 15"),
        (("runs: 60", "runs: 60, gpu_hour: 3"), "budget.gpu_hour: no such setting; did you mean budget.gpu_hours"),
        (("model=tiny", "model=tyni"), "conf/model has no 'tyni'"),
        (("budget:", "sampler: tpee\nbudget:"), "did you mean tpe?"),
        (("budget:", "seeds: {first: 1000}\nbudget:"), "must be seeds no search run has"),
        (("budget:", "objective: {pass_k: 64}\nbudget:"), "ask for a smaller k"),
        (("budget:", "confirm: {compare: [men]}\nbudget:"), "did you mean mean?"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(write, change, words):
    with pytest.raises(HarnessError) as caught:
        write(GOOD.replace(*change))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_study_names_the_nearest(write):
    write(GOOD, "smoke_k")
    with pytest.raises(HarnessError, match="did you mean smoke_k"):
        study.load("smokek")


def test_linear_interpolation_and_a_searched_group_size_search_K(write):
    linear = GOOD.replace("steps=4", "steps=4, baseline=qae, baseline.interpolation=linear")
    with pytest.raises(HarnessError, match="with linear interpolation search K"):
        write(linear)
    found = write(linear.replace("rank: all", "K: {type: float, low: 0.1, high: 0.9}"))
    assert found.space.cells() is None
    assert found.space.overrides({"K": 0.35}) == ("baseline=qae", "baseline.K=0.35")
    sizes = "recipe.group_size: {type: categorical, choices: [8, 16]}, K: {type: float, low: 0.1, high: 0.9, step: 0.1}"
    # of 8 responses K = 0.4 and 0.5 have one rank, 4
    assert len(write(GOOD.replace("rank: all", sizes)).space.cells()) == 17


def test_only_cluster_and_tracking_may_change_on_the_command_line(write):
    write(GOOD)
    assert study.load("s", ["cluster=local"]).definition == study.load("s").definition
    with pytest.raises(HarnessError, match="only cluster and tracking may change"):
        study.load("s", ["steps=9"])


@pytest.mark.parametrize("G", [2, 3, 4, 7, 8, 16, 25, 50, 64])
def test_every_rank_has_a_short_level_that_is_its_own(G):
    found = space.Space((space.Axis(key="rank", kind="int", low=1, high=G),), G)
    for r in range(1, G + 1):
        K = found.overrides({"rank": r})[1].removeprefix("baseline.K=")
        assert quantile.rank(K, G) == r
        assert len(K) <= 4
    assert quantile.short_level(7, 16) == "0.4"


def test_spread_is_a_permutation_whose_start_covers_the_range():
    order = [cell["rank"] for cell in spread([{"rank": r} for r in range(1, 17)])]
    assert sorted(order) == list(range(1, 17))
    assert max(order[:3]) - min(order[:3]) >= 6


def test_studies_of_the_repository_load_and_are_no_sweeps():
    assert {"smoke_k", "qwen3_8b_k"} <= set(study.names())
    for name in study.names():
        assert study.load(name).space.axes
    assert not [name for name in grid.names() if name.startswith("search/")]
