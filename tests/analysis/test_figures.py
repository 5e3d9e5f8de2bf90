"""Every figure is drawn from runs, says what it shows, and is never empty."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from analysis import figures
from analysis.comparison import ablation as studies
from analysis.comparison import palette, results
from analysis.figures import bars, curves, draw, language, weights
from analysis.figures.chart import Bar, Curve, Heat, Layer, digest, title_lines
from harness.errors import HarnessError
from harness.quantile import quantile_weights

pytestmark = pytest.mark.slow  # many processes, files or figures

ALONE = ("entropy", "entropy_by_sign", "query_weights", "advantage_shares", "zero_share", "pass_at_k", "k_sensitivity",
         "words", "tokens", "outcome_map", "paired_differences")  # fmt: skip


@pytest.fixture(scope="module")
def study(smoke):
    return studies.of(smoke)


@pytest.fixture(scope="module")
def final(study):
    return results.final(study)


def marks(chart, kind):
    return [mark for panel in chart.panels for mark in panel.marks if isinstance(mark, kind)]


@pytest.mark.parametrize("name", ALONE)
def test_is_usable_alone_and_labelled(smoke, name):
    figure = getattr(figures, name)(smoke)
    drawn = [axes for axes in figure.axes if axes.has_data()]
    assert drawn
    for axes in drawn:
        if axes.get_label() != "<colorbar>":
            assert axes.get_xlabel()
    legend = [text.get_text() for found in figure.legends for text in found.get_texts()]
    if name not in ("advantage_shares", "outcome_map", "paired_differences"):
        assert "QAE K=0.4 · tiny (0.3M) · 3 seeds" in legend


@pytest.mark.parametrize("name", ALONE)
def test_every_word_lies_within_the_page(smoke, name):
    figure = getattr(figures, name)(smoke)
    renderer, page = figure.canvas.get_renderer(), figure.bbox
    for axes in figure.axes:
        for text in (axes.yaxis.label, axes.xaxis.label, axes.title, *axes.texts):
            if text.get_text() and text.get_visible():
                box = text.get_window_extent(renderer)
                assert box.y0 >= page.y0 - 1, text.get_text()
                assert box.y1 <= page.y1 + 1, text.get_text()


def test_a_success_rate_s_axis_does_not_pass_one_hundred(smoke):
    solved = studies.of(smoke)
    full = {run: replace(tally, correct=tally.n) for run, tally in solved.tallies.items()}
    chart = curves.pass_at_k(replace(solved, tallies=full))
    assert [axes.get_ylim()[1] for axes in draw.draw(chart).axes] == [100.0, 100.0]


def test_mask_ablation_shows_every_mask_at_every_clip_ratio(masks):
    chart = bars.mask_ablation(results.final(studies.of(masks)))
    shown = {(bar.at, bar.name.split(" · ")[0]) for bar in marks(chart, Bar)}
    assert {at for at, _ in shown} == {"0.2", "0.28"}
    assert {name for _, name in shown} == {"mean (GRPO)", "QAE K=0.4", "QAE POS-MASK K=0.4", "QAE NEG-MASK K=0.4"}


def test_mask_ablation_without_masks_says_what_to_sweep(final):
    with pytest.raises(HarnessError, match="sweep baseline.mask"):
        bars.mask_ablation(final)


def test_bands_only_with_three_seeds_otherwise_a_line_a_seed(smoke):
    three = curves.entropy(studies.of(smoke)).panels[0]
    assert all(curve.low is not None and not curve.thin for curve in three.marks)
    assert len(three.marks) == 3
    two = curves.entropy(studies.of([run for run in smoke if run.get("seed") < 3])).panels[0]
    assert len(two.marks) == 6
    assert all(curve.low is None and curve.thin for curve in two.marks)


def test_one_arm_has_one_colour_in_every_figure(study, final):
    charts = [
        curves.entropy(study), curves.zero_share(study), curves.pass_at_k(study), curves.entropy_by_sign(study),
        weights.query_weights(study), language.words(study), language.tokens(study), bars.paired_differences(final),
        bars.k_sensitivity(study, final),
    ]  # fmt: skip
    seen = {}
    for chart in charts:
        for mark in marks(chart, (Curve, Bar)):
            assert seen.setdefault(mark.name, mark.color) == mark.color
    assert len(set(seen.values())) == len(seen) == 3


def test_axes_carry_units(study):
    labels = {panel.y.label for panel in curves.entropy(study).panels}
    assert labels == {"entropy (nats per token)", "pass@1 (%)", "response length (tokens)"}


def test_a_missing_metric_names_the_nearest(smoke):
    lacking = [replace(run, history=run.history.rename(columns={"advantage/zero_share": "advantage/zeroshare"}))
               for run in smoke]  # fmt: skip
    with pytest.raises(HarnessError, match="'advantage/zero_share'.*did you mean advantage/zeroshare"):
        figures.zero_share(lacking)


def test_a_metric_that_some_runs_lack_is_noted(smoke):
    without = replace(smoke[0], history=smoke[0].history.drop(columns=["advantage/zero_share"]))
    chart = curves.zero_share(studies.of([without, *smoke[1:]]))
    assert chart.notes == ("advantage/zero_share was never logged by 1 of 3 runs of mean (GRPO) · tiny (0.3M)",)


def test_shares_stack_to_one_hundred(study):
    for panel in curves.advantage_shares(study).panels:
        layers = [mark for mark in panel.marks if isinstance(mark, Layer)]
        assert [layer.name for layer in layers] == ["zero advantage", "positive advantage", "negative advantage"]
        assert sum(layer.y for layer in layers) == pytest.approx(100.0)
        assert any(getattr(mark, "value", None) == 80.0 for mark in panel.marks)


def test_pass_at_k_beyond_the_samples_is_refused_with_the_reason(smoke):
    with pytest.raises(HarnessError, match="up to pass@16"):
        figures.pass_at_k(smoke, ks=(32,))
    with pytest.raises(HarnessError, match="add_easy, add_hard"):
        figures.pass_at_k(smoke, benchmark="add")


def test_pass_at_k_falls_back_to_the_logged_metric(smoke):
    chart = curves.pass_at_k(studies.of([replace(run, folder=None) for run in smoke]))
    exact = curves.pass_at_k(studies.of(smoke))
    assert "logged metrics" in chart.caption
    assert chart.panels[1].marks[0].y == pytest.approx(exact.panels[1].marks[0].y)


def test_weights_are_those_of_the_proposition(smoke):
    run = next(run for run in smoke if run.get("baseline.K") == 0.4)
    p, positive, negative = weights.weights(run)
    for i in (10, 118, 119, 120, 180):
        assert (positive[i], negative[i]) == pytest.approx(quantile_weights(f"{p[i]:.3f}", 0.4))
    p, positive, _ = weights.weights(smoke[0])
    assert positive == pytest.approx(np.sqrt(p * (1 - p)))


@pytest.mark.parametrize(("name", "factor"), [("mean_no_std", 1.0), ("rloo", 16 / 15)])
def test_weights_without_the_standard_deviation(smoke, name, factor):
    config = {**smoke[0].config, "baseline": {"name": name, "norm_by_std": False, "K": None}}
    p, positive, negative = weights.weights(replace(smoke[0], config=config))
    assert positive == pytest.approx(p * (1 - p) * factor)
    assert negative == pytest.approx(positive)


def test_the_histogram_counts_groups_of_the_sweep(study):
    last = weights.query_weights(study).panels[-1]
    for curve in (mark for mark in last.marks if isinstance(mark, Curve)):
        assert curve.y.sum() == pytest.approx(100.0)
        assert curve.detail == "192 groups"  # 3 seeds x 8 steps x 8 groups


def test_k_sensitivity_shows_the_expected_order(study, final):
    entropy = bars.k_sensitivity(study, final).panels[0]
    values = {bar.at: bar.value for bar in entropy.marks}
    assert values["0.6"] > values["0.4"] > values["mean\n(GRPO)"]


def test_k_sensitivity_needs_two_levels(smoke):
    with pytest.raises(HarnessError, match="sweep at least 2"):
        figures.k_sensitivity([run for run in smoke if run.get("baseline.K") != 0.6])


def test_tokens_are_pooled_by_count_and_rare_ones_left_out(study):
    table = language.token_table(study.arms[0], 40)
    assert (table["count"] >= language.MIN_COUNT).all()
    assert table["mean_entropy"].is_monotonic_decreasing
    with pytest.raises(HarnessError, match="recorded at 1, 20, 40"):
        language.tokens(study, steps=(7,))


def test_white_space_tokens_can_be_read():
    assert [language.visible(t) for t in (" wait", "\n", "", "a")] == ["␣wait", "\\n", "''", "a"]


def test_paired_differences_need_two_arms(smoke):
    with pytest.raises(HarnessError, match="one arm"):
        figures.paired_differences([run for run in smoke if run.get("baseline.name") == "mean"])


def test_outcome_map_goes_from_easy_to_hard(study, final):
    for heat in marks(bars.outcome_map(study, final), Heat):
        assert (np.diff(heat.values.mean(axis=0)) <= 1e-12).all()
        assert len(heat.columns) == heat.values.shape[1]


def test_figures_with_a_panel_an_arm_have_a_limit(smoke):
    many = [
        replace(
            smoke[i % 9], id=f"r{i}", config={**smoke[i % 9].config, "recipe": {"name": "dapo", "group_size": i + 2}}
        )
        for i in range(15)
    ]
    chart = curves.advantage_shares(studies.of(many))
    assert len(chart.panels) == 12
    assert chart.notes == ("the first 12 arms; 3 more need a filter or another `by`",)


def test_saved_in_three_formats_and_twice_the_same(smoke, tmp_path):
    figure = figures.zero_share(smoke)
    paths = figures.save(figure, tmp_path / "zero")
    assert [path.name for path in paths] == ["zero.pdf", "zero.svg", "zero.png"]
    first = [path.read_bytes() for path in paths]
    assert b"/Type /Font" in first[0]
    assert b"/Type3" not in first[0].replace(b" ", b"")  # journals refuse Type 3 fonts
    again = figures.save(figures.zero_share(smoke), tmp_path / "zero")
    assert [path.read_bytes() for path in again] == first
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
    with pytest.raises(HarnessError, match="did you mean svg"):
        figures.save(figure, tmp_path / "zero", ["svgz"])


def test_text_is_not_cut_off(study, final):
    """Every label, title and legend entry lies within the page."""
    for chart in (bars.outcome_map(study, final), bars.paired_differences(final), curves.advantage_shares(study)):
        figure = draw.draw(chart)
        page, renderer = figure.bbox, figure.canvas.get_renderer()
        for axes in figure.axes:
            texts = [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
            for text in [*texts, *axes.get_yticklabels()]:
                if text.get_text() and text.get_visible():
                    box = text.get_window_extent(renderer)
                    assert page.x0 - 1 <= box.x0, (chart.key, text.get_text())
                    assert box.x1 <= page.x1 + 1, (chart.key, text.get_text())


def test_long_titles_break_at_their_dots():
    assert title_lines("mean (GRPO) · tiny (0.3M) · 3 seeds") == ["mean (GRPO) · tiny (0.3M)", "3 seeds"]
    assert title_lines("") == []


def test_digest_changes_with_anything_shown(study):
    chart = curves.zero_share(study)
    assert digest(chart) == digest(curves.zero_share(study))
    assert digest(chart) != digest(chart, b"new look")
    assert digest(dataclasses.replace(chart, caption="other")) != digest(chart)
    [panel] = chart.panels
    moved = dataclasses.replace(panel.marks[-1], y=panel.marks[-1].y + 1e-9)
    changed = dataclasses.replace(chart, panels=(dataclasses.replace(panel, marks=(*panel.marks[:-1], moved)),))
    assert digest(changed) != digest(chart)


def test_drawing_leaves_the_global_state_of_matplotlib_alone(study, tmp_path):
    before = matplotlib.rcParams.copy()
    draw.save(draw.draw(curves.zero_share(study)), tmp_path / "zero", ["png"])
    names = [name for name in before if name != "backend"]  # looking at the backend would choose one
    assert {name: matplotlib.rcParams[name] for name in names} == {name: before[name] for name in names}


def test_pyplot_is_never_imported():
    code = (
        "import sys; from analysis.figures import draw; from analysis.figures.chart import *; axis = Axis(label='x');"
        "draw.draw(Chart(key='k', title='', caption='', panels=(Panel(x=axis, y=axis, marks=()),)));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_line_does_not_wait_for_plotting():
    code = "import sys, analysis.cli as c; c.PROGRAM._root(); assert not {'matplotlib', 'plotly', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_signs_have_colours_that_no_arm_has():
    assert not {palette.ZERO, palette.POSITIVE, palette.NEGATIVE} & set(palette.COLORS)
