"""A finished run's rewards leave out ranks under which hardly a response would have had an advantage."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.counterfactual import replay
from harness import quantile
from harness.config import grid
from harness.errors import HarnessError
from harness.search import journal as records
from harness.search import loop, narrow
from harness.search import study as studies
from harness.search.journal import Journal
from harness.store.runs import Store
from tests.support import search_world
from tests.support.search_world import World, finish, peak

RUN = "0123456789"


@pytest.fixture
def store(tmp_path):
    """A run of four steps whose queries are solved by 14 to 16 of 16 responses: no rank above 2 has many failures."""
    folder = tmp_path / "runs" / RUN
    for step in range(1, 5):
        right = [14, 15, 16, 16, 16, 16]
        rewards = np.concatenate([[1.0] * n + [0.0] * (16 - n) for n in right])
        names = np.repeat([f"s{step}p{i}" for i in range(len(right))], 16)
        path = folder / "outcomes" / "train" / f"step_{step:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"step": [step] * 96, "group": names, "reward": rewards, "accuracy": rewards}), path)
    (folder / "spec.json").write_text(json.dumps({"id": RUN, "label": "mean", "config": {}}))
    return Store(tmp_path / "runs")


def study(**narrowing):
    return search_world.study(narrow={"run": RUN[:4], **narrowing}, budget={"runs": 30}, confirm={"seeds": 0})


def test_ranks_stay_by_their_share_of_zero_advantages_and_the_papers_always(store):
    groups = replay.read(store.folder(RUN))
    zero = {r: float(replay.replay(groups, quantile.short_level(r, 16)).zero.mean()) for r in range(1, 17)}
    by_hand = {1: 14 + 15, 2: 14 + 1, 3: 2 + 1, 16: 2 + 1}  # of 96 responses, those with an advantage
    assert {r: zero[r] for r in by_hand} == pytest.approx({r: 1 - n / 96 for r, n in by_hand.items()})
    assert narrow.ranks(study(most_zero=0.96), store) == [1, 2, 7, 10]
    assert narrow.ranks(study(most_zero=0.97), store) == list(range(1, 17))
    assert narrow.ranks(study(most_zero=0.0), store) == [7, 10]


def test_a_study_asks_for_the_ranks_that_are_left_and_the_grid_is_chosen_by_them(store, tmp_path):
    asked = study(most_zero=0.96)
    tight = search_world.study(
        narrow={"run": RUN, "most_zero": 0.96}, budget={"runs": 8}, confirm={"trials": 1, "seeds": 1, "compare": []}
    )
    for found, sampler in ((asked, "grid"), (tight, "grid")):
        path = tmp_path / f"{found.rules.budget.runs}.log"
        journal = Journal(found, path)
        journal.set(records.RANKS, narrow.ranks(found, store))
        assert journal.left_out() == 12
        assert journal.sampler() == sampler
        view = finish(found, World(peak(2)), path)
        assert {t.cell["rank"] for t in view.trials} == {1, 2, 7, 10}
    assert tight.sampler() == "tpe", "sixteen ranks would not have fitted"


def test_what_cannot_be_narrowed_is_one_line(store):
    axes = {"recipe.clip_high": {"type": "float", "low": 0.2, "high": 0.3}}
    other = search_world.study(axes=axes, narrow={"run": RUN})
    with pytest.raises(HarnessError, match="narrow needs an axis of ranks"):
        narrow.ranks(other, store)
    unknown = search_world.study(narrow={"run": "ff"})
    with pytest.raises(HarnessError, match="run 'ff': none in"):
        narrow.ranks(unknown, store)
    only = search_world.study(axes={"rank": {"low": 12, "high": 14}}, narrow={"run": RUN, "most_zero": 0.5})
    with pytest.raises(HarnessError, match="narrow.most_zero=0.5 leaves no rank: raise it"):
        narrow.ranks(only, store)


def test_groups_of_another_size_say_nothing_about_these_ranks(store, tmp_path):
    (tmp_path / "search").mkdir()
    text = f"overrides: [recipe.group_size=8]\nspace: {{rank: all}}\nbudget: {{runs: 40}}\nnarrow: {{run: '{RUN}'}}\n"
    (tmp_path / "search" / "s.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "folder", lambda: tmp_path)
        found = studies.load("s")
    with pytest.raises(HarnessError, match="its groups have 16 responses, the study's 8"):
        narrow.ranks(found, store)


def test_the_plan_shows_the_ranks_that_are_left_before_anything_starts(store, tmp_path, monkeypatch):
    (tmp_path / "search").mkdir()
    text = "overrides: [model=tiny]\nspace: {rank: all}\nbudget: {runs: 30}\nconfirm: {trials: 1, seeds: 1}\n"
    (tmp_path / "search" / "s.yaml").write_text(text + f"narrow: {{run: '{RUN}', most_zero: 0.96}}\n")
    monkeypatch.setattr(grid, "folder", lambda: tmp_path)
    monkeypatch.setenv("HARNESS_RUNS", str(store.root))
    told = loop.plan("s")
    assert "study s: 4 cells" in told
    assert f"the replay of run {RUN} speaks against 12 others" in told
    assert "rank 3 of 16" not in told
    assert not (store.root / "_studies").exists()
