from __future__ import annotations

import numpy as np
import pytest

from analysis import searching
from analysis.figures import searched as figures
from analysis.report import searched as page
from tests.support import search_world
from tests.support.search_world import World, finish, peak

AXES = {"rank": {"K": [0.2, 0.4, 0.6, 0.8]}}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A finished study with a pruned, an infeasible and a failed trial."""
    study = search_world.study(
        axes={"rank": {"K": [0.2, 0.4, 0.6, 0.8, 0.95]}}, budget={"runs": 30}, in_flight=1, seeds={"most": 3},
        constraints={"entropy_low": 0.1}, confirm={"trials": 2, "seeds": 3},
    )  # fmt: skip
    world = World(
        peak(8, 0.03), entropy=lambda rank: 0.05 if rank == 10 else 1.0,
        fails=lambda rank, seed: 99 if rank == 16 else 0,
    )  # fmt: skip
    return study, finish(study, world, tmp_path_factory.mktemp("study") / "journal.log")


def test_rows_hold_every_trial_the_best_first_with_intervals_around_its_mean(found):
    study, view = found
    rows = searching.rows(study, view)
    assert len(rows) == len(view.trials) == 5
    valued = [row for row in rows if row.interval]
    assert [row.interval.estimate for row in valued] == sorted((r.interval.estimate for r in valued), reverse=True)
    for row in valued:
        direct = np.mean([r.look.measure.value(2) for r in searching.finished(row.trial.runs, study)])
        assert row.interval.estimate == pytest.approx(direct)
        assert row.interval.low < direct < row.interval.high
    assert all(row.interval is None for row in rows if row.trial.status in ("failed", "pruned"))


def test_the_winner_is_measured_on_fresh_seeds_alone(found):
    study, view = found
    verdict = searching.verdict(study, view)
    fresh = [r for r in view.groups[f"trial {view.winner}"] if r.seed >= 1001]
    assert verdict.interval.seeds == 3
    assert verdict.interval.estimate == pytest.approx(np.mean([r.look.measure.value(2) for r in fresh]))
    names = [name for name, _, _ in verdict.against]
    assert names == ["the mean baseline", "K = 0.4"]
    for _, gap, own in verdict.against:
        assert gap.interval.estimate == pytest.approx(verdict.interval.estimate - own.estimate)


def test_hours_saved_are_those_of_pruned_runs_only(found):
    study, view = found
    pruned = [r for t in view.trials if t.status == "pruned" for r in t.runs]
    spent = searching.hours(view)
    assert spent.saved == pytest.approx(sum(view.run_hours - r.look.hours for r in pruned))
    assert spent.spent == pytest.approx(sum(r.look.hours for r in view.everything()))


def test_the_page_tells_winner_pruned_failed_and_figures(found, tmp_path, monkeypatch):
    study, view = found
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))
    html = page.write(study, view, [], tmp_path / "out", figures=False).read_text()
    winner = next(t for t in view.trials if t.number == view.winner)
    assert f"rank {winner.cell['rank']} of 16, K in (" in html
    assert "against the mean baseline" in html
    assert "outside: entropy_low" in html
    assert "loss is nan" in html
    assert "Every K of this interval is the same experiment" in html
    assert 'data-chart="search_rank"' in html


def test_the_figure_has_a_dot_a_seed_and_an_interval_a_trial(found):
    study, view = found
    rows = searching.rows(study, view)
    accuracy = figures.over_axis(study, view, rows, "rank").panels[0]
    dots = [mark for mark in accuracy.marks if getattr(mark, "name", "") == "one seed"]
    means = [mark for mark in accuracy.marks if getattr(mark, "name", "").startswith("trial")]
    assert len(dots) == sum(row.seeds for row in rows)
    assert len(means) == sum(row.interval is not None for row in rows)
    assert all(mark.low is not None for mark in means)


def test_importance_is_told_where_there_are_several_axes(tmp_path):
    from harness.search.journal import Journal

    axes = {"rank": "all", "recipe.clip_high": {"type": "float", "low": 0.2, "high": 0.3, "step": 0.02}}
    study = search_world.study(axes=axes, budget={"runs": 24}, in_flight=3, pruning={"wilcoxon": False})
    finish(study, World(peak(7, 0.02)), tmp_path / "journal.log")
    shares = searching.importance(study, Journal(study, tmp_path / "journal.log", reading=True).trials())
    assert set(shares) == {"rank", "recipe.clip_high"}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert searching.importance(search_world.study(axes=AXES), []) == {}
