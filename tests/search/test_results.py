from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.figures.chart import Dots
from analysis.statistics.multiple import holm
from harness.search import figures, page, results
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
    rows = results.rows(study, view)
    assert len(rows) == len(view.trials) == 5
    valued = [row for row in rows if row.interval]
    assert [row.interval.estimate for row in valued] == sorted((r.interval.estimate for r in valued), reverse=True)
    for row in valued:
        direct = np.mean([r.look.measure.value(2) for r in results.finished(row.trial.runs, study)])
        assert row.interval.estimate == pytest.approx(direct)
        assert row.interval.low < direct < row.interval.high
    assert all(row.interval is None for row in rows if row.trial.status in ("failed", "pruned"))


def test_the_winner_is_measured_on_fresh_seeds_alone(found):
    study, view = found
    verdict = results.verdict(study, view)
    fresh = [r for r in view.groups[f"trial {view.winner}"] if r.seed >= 1001]
    assert verdict.interval.seeds == 3
    assert verdict.interval.estimate == pytest.approx(np.mean([r.look.measure.value(2) for r in fresh]))
    names = [name for name, _, _ in verdict.against]
    assert names == ["the mean baseline", "K = 0.4"]
    raw = [gap.p for _, gap, _ in verdict.against]
    assert sorted(verdict.adjusted) == pytest.approx(sorted(holm(raw)))
    for _, gap, own in verdict.against:
        assert gap.interval.estimate == pytest.approx(verdict.interval.estimate - own.estimate)


def test_hours_saved_are_those_of_pruned_runs_only(found):
    study, view = found
    pruned = [r for t in view.trials if t.status == "pruned" for r in t.runs]
    spent = results.hours(view)
    assert spent.saved == pytest.approx(sum(view.run_hours - r.look.hours for r in pruned))
    assert spent.spent == pytest.approx(sum(r.look.hours for r in view.everything()))


def test_the_page_tells_winner_pruned_failed_and_figures(found, tmp_path, monkeypatch):
    study, view = found
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))
    html = page.write(study, view, [], tmp_path / "out", figures=False).read_text()
    winner = next(t for t in view.trials if t.number == view.winner)
    assert f"rank {winner.cell['rank']} of 16, K in (" in html
    assert "against the mean baseline" in html
    assert html.count("difference is shown (Holm-adjusted p = ") == 2
    assert "outside: entropy_low" in html
    assert "loss is nan" in html
    assert "Every K of this interval is the same experiment" in html
    assert 'data-chart="search_rank"' in html


def test_the_figure_has_a_dot_a_seed_and_an_interval_a_trial(found):
    study, view = found
    rows = results.rows(study, view)
    accuracy = figures.over_axis(study, view, rows, "rank").panels[0]
    dots = {mark.name: mark for mark in accuracy.marks if isinstance(mark, Dots)}
    assert len(dots["one seed"].x) == sum(row.seeds for row in rows)
    trials = dots["trial, mean over its seeds"]
    assert len(trials.x) == sum(row.interval is not None for row in rows)
    assert (trials.low < trials.y).all()
    assert (trials.y < trials.high).all()
    assert len(dots["fresh seed"].x) == 3 * len(view.finalists)


def test_importance_is_told_where_there_are_several_axes(tmp_path):
    from harness.search.journal import Journal

    axes = {"rank": "all", "recipe.clip_high": {"type": "float", "low": 0.2, "high": 0.3, "step": 0.02}}
    study = search_world.study(axes=axes, budget={"runs": 24}, in_flight=3, pruning={"wilcoxon": False})
    finish(study, World(peak(7, 0.02)), tmp_path / "journal.log")
    shares = results.importance(study, Journal(study, tmp_path / "journal.log", reading=True).trials())
    assert set(shares) == {"rank", "recipe.clip_high"}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert results.importance(search_world.study(axes=AXES), []) == {}


def test_the_axis_is_in_order_whatever_became_of_its_trials(found):
    study, view = found
    chart = figures.over_axis(study, view, results.rows(study, view), "rank")
    x = chart.panels[0].x
    assert list(x.ticks) == sorted(x.ticks)
    assert x.names == ("4\n0.2", "7\n0.4", "10\n0.6", "13\n0.8", "16\n0.97")
    ranks = {row.trial.number: row.trial.cell["rank"] for row in results.rows(study, view)}
    for dots in (mark for panel in chart.panels for mark in panel.marks if isinstance(mark, Dots)):
        for place, told in zip(dots.x, dots.texts, strict=True):
            if told.startswith("trial"):
                assert place == ranks[int(told.split()[1].strip(","))]


def test_axes_of_every_kind_have_their_own_scale(tmp_path):
    axes = {
        "rank": {"low": 2, "high": 15},
        "recipe.learning_rate": {"type": "float", "low": 1e-7, "high": 1e-5, "log": True},
        "recipe.loss_agg_mode": {"type": "categorical", "choices": ["token-mean", "seq-mean-token-mean"]},
    }
    study = search_world.study(axes=axes, budget={"runs": 20}, in_flight=2)
    view = finish(study, World(peak(7, 0.02)), tmp_path / "journal.log")
    rows = results.rows(study, view)
    rank, rate, mode = (figures.over_axis(study, view, rows, key).panels[0] for key in axes)
    assert (rank.x.low, rank.x.high, len(rank.x.ticks)) == (pytest.approx(1.4), pytest.approx(15.6), 7)
    assert rate.x.log
    assert rate.x.low < 1e-7 < 1e-5 < rate.x.high
    assert mode.x.ticks == (0.0, 1.0)
    assert mode.x.names[0] == "token-\nmean"
    for panel in (rank, rate, mode):
        for mark in panel.marks:
            assert all(panel.x.low <= x <= panel.x.high for x in mark.x)
    html = page.write(study, view, [], tmp_path / "out", figures=False).read_text()
    assert ">learning_rate</th>" in html
    assert "recipe.loss_agg_mode=token-mean" in html


def test_two_objectives_have_a_figure_a_column_and_a_front(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))
    study = search_world.study(
        axes=AXES, budget={"runs": 20}, objective={"multi": True}, confirm={"trials": 4, "seeds": 1, "compare": []}
    )
    view = finish(study, World(peak(13, 0.05), pass_k=lambda rank: 0.9 - 0.03 * rank, noise=0.0), tmp_path / "j.log")
    rows = results.rows(study, view)
    assert results.front(rows) == {t.number for t in view.trials}
    worse = [replace(row, second=0.1) if row.trial.cell["rank"] == 7 else row for row in rows]
    assert {t.cell["rank"] for t in view.trials if t.number in results.front(worse)} == {4, 10, 13}
    drawn = figures.objectives(study, view, worse).panels[0].marks
    assert sorted(len(mark.x) for mark in drawn if isinstance(mark, Dots)) == [1, 3, 4]
    html = page.write(study, view, [], tmp_path / "out", figures=False).read_text()
    assert "pass@16 (%)</th>" in html
    assert "on the front" in html
    assert "highest pass@1; what matters to you may be pass@16" in html
    assert 'data-chart="search_objectives"' in html


def test_the_same_figures_are_drawn_for_print(found, tmp_path):
    from analysis.figures import draw

    study, view = found
    chart = figures.over_axis(study, view, results.rows(study, view), "rank")
    figure = draw.draw(chart)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()][0] == "4\n0.2"
    assert (draw.save(figure, tmp_path / "f")[0]).stat().st_size > 5000
