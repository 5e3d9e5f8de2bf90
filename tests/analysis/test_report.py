"""The page: self-contained, says only what the intervals support, warns of what is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from analysis import cli, report
from analysis.comparison import ablation as studies
from analysis.comparison import results
from analysis.comparison.results import Cell
from analysis.figures.chart import Axis, Bar, Chart, Curve, Heat, Panel
from analysis.report import build, cards, interactive, summary
from analysis.report.cautions import cautions
from analysis.statistics.components import Sources
from analysis.statistics.difference import Difference
from analysis.statistics.entropy import Health
from analysis.statistics.estimate import Interval
from harness.errors import HarnessError
from tests.support import wandb_log


class Page(HTMLParser):
    """Collects what a test asks for; a tag closed in the wrong order is an error."""

    VOID = {"meta", "link", "br", "rect", "line", "img", "hr", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.links, self.plots, self.sources = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.links += [found["href"]] if tag == "a" else []
        self.sources += [value for key, value in found.items() if key == "src"]
        self.sources += [found["href"]] if tag == "link" else []
        if "plot" in (found.get("class") or "").split():
            self.plots.append((found["data-chart"], int(found["data-panel"])))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    @property
    def words(self):
        return re.sub(r"\s+", " ", " ".join(self.text))


@pytest.fixture(scope="module")
def written(smoke, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports") / "smoke"
    report.write("smoke", smoke, folder, question="Does it <hold>?", missing=("QAE K=0.9, tiny, seed 1",),
                 figures=False)  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def page(written):
    return Page((written / "index.html").read_text())


def test_names_no_other_file_or_address(written, page):
    assert page.sources == ["data:,"]
    text = (written / "index.html").read_text()
    assert "default-src 'none'" in text
    outside = [link for link in page.links if not link.startswith(("#", "figures/", "table.", "../"))]
    assert outside == []
    assert len(text) < 15_000_000


def test_every_link_leads_somewhere(written, page):
    ids = set(re.findall(r' id="([^"]+)"', (written / "index.html").read_text()))
    for link in page.links:
        if not link.startswith("figures/"):  # those are checked where they are drawn
            assert link[1:] in ids if link.startswith("#") else (written / link).exists(), link


def test_every_plot_has_its_data(written, page):
    text = (written / "index.html").read_text()
    data = json.loads(re.search(r'id="charts">(.*?)</script>', text, re.S)[1])
    assert {key for key, _ in page.plots} == set(data)
    for key, number in page.plots:
        spec = data[key][number]
        assert spec["data"]
        assert spec["layout"]["xaxis"]["title"]["text"] or spec["layout"]["yaxis"]["title"]["text"]
    for key in ("entropy", "zero_share", "pass_at_k", "entropy_by_sign", "advantage_shares", "k_sensitivity",
                "query_weights", "words", "tokens", "outcome_map", "paired_differences"):  # fmt: skip
        assert key in data


def test_holds_what_a_reviewer_asks_for(page):
    for part in (
        "Does it <hold>?", "Every arm has at least 3 seeds", "Entropy collapsed in 3 of 3 runs of mean (GRPO)",
        "QAE K=0.4 · tiny (0.3M) · 3 seeds", "Bold: the highest value of a column", "shown after Holm (5 %)", "collapsed from step", "012345678901", "verl 0.9.1", "arithmetic/1",
        "baseline.K", "1 planned runs have no folder yet", "One-sided masks", "sweep baseline.mask",
    ):  # fmt: skip
        assert part in page.words, part


def test_tables_lie_beside_the_page(written):
    assert "pass@16" in (written / "table.md").read_text()


@pytest.mark.slow
def test_figure_files_of_every_chart_are_linked_and_exist(smoke, tmp_path):
    page = Page(report.write("smoke", smoke, tmp_path).read_text())
    linked = [link for link in page.links if link.startswith("figures/")]
    assert len(linked) == 3 * len({key for key, _ in page.plots})
    for link in linked:
        assert (tmp_path / link).stat().st_size > 2000


def test_unchanged_figures_are_not_drawn_again(smoke, tmp_path):
    study = studies.of(smoke)
    drawn = build._training(study)[1:2]
    assert build.save_figures(drawn, tmp_path) == ["zero_share"]
    assert build.save_figures(drawn, tmp_path) == []
    (tmp_path / "zero_share.svg").unlink()
    assert build.save_figures(drawn, tmp_path) == ["zero_share"]
    (tmp_path / "drawn.json").write_text("{torn")
    assert build.save_figures(drawn, tmp_path) == ["zero_share"]


def test_text_from_a_run_cannot_become_markup(smoke, tmp_path):
    evil = "</script><script>alert(1)</script>"
    runs = [
        replace(run, label=evil, notes=(evil,), config={**run.config, "model": {"name": evil}}) for run in smoke[:3]
    ]
    text = report.write(evil, runs, tmp_path, figures=False).read_text()
    assert evil not in text
    assert "alert(1)" in Page(text).words


def cell(low, high, adjusted, seeds=3, estimate=None):
    middle = (low + high) / 2 if estimate is None else estimate
    d = Difference(Interval(middle, low, high, seeds, 30), None, adjusted, Sources(0.0001, 29, ()))
    return Cell(Interval(0.5, 0.4, 0.6, seeds, 30), (0.5,) * seeds, d, adjusted)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (cell(0.01, 0.05, 0.01), True),
        (cell(-0.05, -0.01, 0.01), True),
        (cell(-0.01, 0.05, 0.2), False),  # the interval holds zero
        (cell(0.01, 0.05, 0.06), False),  # the family does not exclude it
        (cell(0.01, 0.05, None, seeds=2), False),  # nothing is tested below three seeds
    ],
)
def test_a_difference_is_claimed_only_if_it_holds_after_holm(found, said):
    assert found.shown is said


def final_with(smoke, seeds, found):
    chosen = [run for run in smoke if run.get("seed") <= seeds]
    final = results.final(studies.of(chosen))
    arm = final.arms[1]
    return replace(final, cells={**final.cells, (arm.key, final.primary, 1): found})


def test_the_sentence_of_a_shown_difference_names_size_interval_and_scope(smoke):
    text = summary.accuracy(final_with(smoke, 3, cell(0.01, 0.05, 0.01)), 1)[0]
    assert text.startswith("QAE K=0.4 is 3.0 points above mean (GRPO) in pass@1 over 2 benchmarks")
    assert "+1.0 to +5.0" in text
    assert "3 seeds or more an arm" in text
    below = summary.accuracy(final_with(smoke, 3, cell(-0.05, -0.01, 0.01)), 1)[0]
    assert "3.0 points below" in below


def test_below_three_seeds_the_sentence_is_about_these_runs_only(smoke):
    final = final_with(smoke, 1, cell(0.01, 0.05, None, seeds=1))
    (line,) = summary.accuracy(final, 1)
    assert line.startswith(
        "No difference in pass@1 from mean (GRPO) is shown for QAE K=0.4 (+3.0 points, +1.0 to +5.0)"
    )
    assert "below 3 seeds nothing is tested, and the intervals speak of these runs only" in line
    assert "p =" not in line
    assert "no claim about the method follows" in summary.seeds(studies.of(smoke[:1]))


def test_no_shown_difference_is_said_as_such(smoke):
    text = " ".join(summary.accuracy(final_with(smoke, 3, cell(-0.03, 0.05, 0.4)), 1))
    assert "No difference in pass@1" in text
    assert "QAE K=0.4 (+1.0 points, -3.0 to +5.0)" in text


def test_many_arms_are_counted_instead_of_listed(smoke):
    chosen = [run for run in smoke if run.get("seed") == 1]
    baselines = [{"name": "mean"}, *({"name": "qae", "K": i / 100, "mask": "both"} for i in range(1, 24))]
    runs = [
        replace(chosen[i % 3], id=f"r{i}", config={**chosen[i % 3].config, "baseline": baseline})
        for i, baseline in enumerate(baselines)
    ]
    final = results.final(studies.of(runs))
    shown = {(arm.key, final.primary, 1): cell(0.01, 0.05 + i / 100, 0.01) for i, arm in enumerate(final.arms[1:11])}
    lines = summary.accuracy(replace(final, cells={**final.cells, **shown}), 1)
    assert len([line for line in lines if "points above" in line]) == summary.MOST
    assert any("2 more arms" in line for line in lines)
    assert any("13 of 23 arms" in line for line in lines)


def test_entropy_sentences_count_runs(smoke):
    study = studies.of(smoke)
    steady = {run.id: Health(verdict="steady") for run in smoke}
    assert summary.entropy(study, steady) == ["No run's entropy collapsed or exploded by the stated rules."]
    one = {**steady, study.arms[2].runs[0].id: Health(verdict="exploded", began=12)}
    assert summary.entropy(study, one) == ["Entropy exploded in 1 of 3 runs of QAE K=0.6 (from step 12)."]
    back = {**steady, study.arms[2].runs[0].id: Health(verdict="collapsed", began=12, ended=30)}
    assert summary.entropy(study, back) == [
        "Entropy collapsed in 1 of 3 runs of QAE K=0.6 (from step 12; over by the end)."
    ]
    sinking = {**steady, **{run.id: Health(verdict="falling", began=9) for run in study.arms[1].runs}}
    assert summary.entropy(study, sinking) == [
        "No run's entropy collapsed or exploded by the stated rules.",
        "Entropy is falling in 3 of 3 runs of QAE K=0.4.",
    ]


def test_what_could_have_been_found_is_not_said_below_three_seeds(smoke):
    few = results.final(studies.of([run for run in smoke if run.get("seed") == 1]))
    assert "cannot be said: fewer than 3 seeds" in summary.detectable(few)
    final = results.final(studies.of(smoke))
    compared = [final.cell(arm, final.primary, 1).difference for arm in final.arms[1:]]
    sizes = [100 * d.detectable(len(compared) * len(final.ks)) for d in compared]
    said = summary.detectable(final)
    assert f"correction for {len(compared) * len(final.ks)} comparisons" in said
    assert f"{min(sizes):.1f} to {max(sizes):.1f} points" in said or f"{max(sizes):.1f} points" in said
    assert compared[0].detectable(1) < compared[0].detectable(4)


def test_cautions(smoke):
    runs = [run for run in smoke if not (run.get("baseline.K") == 0.6 and run.get("seed") == 2)]
    runs[0] = replace(runs[0], state="failed", notes=("lost 3 rows",), history=runs[0].history.iloc[:10])
    found = cautions(studies.of(runs), None, missing=["a", "b"])
    text = "\n".join(found)
    for part in (
        "below 3 seeds no claim about a method is possible: QAE K=0.6 · tiny (0.3M) has 2", "2 planned runs",
        "QAE K=0.6 · tiny (0.3M) lacks seed 2", "is failed at step 9", "unequal steps: the longest run has 40",
        "lost 3 rows",
    ):  # fmt: skip
        assert part in text, part
    assert cautions(studies.of(smoke), None) == []


def test_a_note_of_many_runs_is_one_line(smoke):
    noted = [replace(run, notes=("no W&B file: read from the other log",)) for run in smoke]
    [line] = cautions(studies.of(noted), None)
    assert line.startswith("9 runs (")
    assert "and 3 more" in line


def test_a_sweep_without_outcomes_still_has_its_curves(smoke, tmp_path):
    bare = [
        replace(r, folder=None, history=r.history[[c for c in r.history if not c.startswith("eval/")]]) for r in smoke
    ]
    page = Page(report.write("bare", bare, tmp_path, figures=False).read_text())
    assert ("entropy", 0) in page.plots
    assert "No accuracy was recorded" in page.words
    assert not (tmp_path / "table.csv").exists()


def test_a_sweep_with_logged_scores_alone_has_its_table_with_intervals_over_seeds(smoke, tmp_path):
    bare = [replace(run, folder=None) for run in smoke]
    page = Page(report.write("bare", bare, tmp_path, figures=False).read_text())
    assert "as it was logged, 95 % intervals over seeds" in page.words
    assert "a log does not tell problems apart" in page.words
    assert ("paired_differences", 0) in page.plots
    assert ("outcome_map", 0) not in page.plots
    assert "0 problems" not in page.words
    few = [run for run in bare if run.get("seed") == 1]
    page = Page(report.write("few", few, tmp_path, figures=False).read_text())
    assert "below 3 seeds logged scores have no intervals" in page.words
    assert not re.search(r"\bnan\b", page.words)
    assert "nan" not in (tmp_path / "table.csv").read_text().lower()
    assert "nan" not in (tmp_path / "table.tex").read_text().lower()


def test_runs_that_logged_nothing_are_no_crash(smoke, tmp_path):
    empty = [replace(run, history=run.history.iloc[:0][["step"]], folder=None, state="running") for run in smoke[:2]]
    page = Page(report.write("fresh", empty, tmp_path, figures=False).read_text())
    assert "Not drawn" in page.words
    assert "has the metric 'actor/entropy'" in page.words


def test_no_runs_are_refused(tmp_path):
    with pytest.raises(HarnessError, match="no runs"):
        report.write("nothing", [], tmp_path)


def test_a_folder_that_cannot_be_written_is_named(smoke, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HarnessError, match="cannot be written.*choose another folder with --out"):
        report.write("smoke", smoke[:1], tmp_path / "file", figures=False)


def test_numbers_on_a_bar_axis_are_names_and_a_title_of_two_lines_has_its_room():
    marks = tuple(Bar(at=at, value=1.0, name="mean", color="#D55E00") for at in ("2\nenable=<b>", "4", "16"))
    panel = Panel(x=Axis(label="G"), y=Axis(label="%"), marks=marks, title=f"{'one' * 12} · {'two' * 12}")
    [plot] = interactive.plots(Chart(key="k", title="t", caption="c", panels=(panel,)))
    assert plot["layout"]["xaxis"]["type"] == "category"
    assert plot["data"][0]["x"] == ["2<br>enable=&lt;b&gt;", "4", "16"]
    assert plot["layout"]["margin"]["t"] == 24 + 2 * 16


def test_arrays_are_packed_without_loss_for_a_plot():
    values = np.array([0.1, np.nan, np.inf, 3.0])
    packed = interactive.packed(values)
    back = np.frombuffer(__import__("base64").b64decode(packed["bdata"]), dtype="<f4")
    assert back == pytest.approx([0.1, np.nan, np.nan, 3.0], nan_ok=True, rel=1e-6)


def test_regular_steps_are_not_listed_and_others_are():
    def x_of(x):
        curve = Curve(x=np.array(x), y=np.zeros(len(x)), name="a", color="#000000")
        panel = Panel(x=Axis(label="x"), y=Axis(label="y"), marks=(curve,))
        [plot] = interactive.plots(Chart(key="k", title="t", caption="c", panels=(panel,)))
        return {key: plot["data"][0].get(key) for key in ("x", "x0", "dx")}

    assert x_of([10.0, 20.0, 30.0]) == {"x": None, "x0": 10.0, "dx": 10.0}
    assert x_of([10.0, 20.0, 25.0])["x"]["dtype"] == "f4"
    assert x_of([10.0])["x"]["dtype"] == "f4"


def test_too_many_points_are_thinned_and_the_page_says_so():
    x = np.arange(1000.0)
    lines = tuple(Curve(x=x, y=x, name="a", color="#000000") for _ in range(130))
    panel = Panel(x=Axis(label="x"), y=Axis(label="y"), marks=lines)
    chart = Chart(key="k", title="t", caption="c", panels=(panel,))
    assert interactive.stride(panel) == 3
    [plot] = interactive.plots(chart)
    assert plot["data"][0]["dx"] == 3.0
    assert len(plot["data"][0]["y"]["bdata"]) == pytest.approx(334 * 4 * 4 / 3, abs=4)
    assert "one point in 3" in cards.html(chart)


def test_the_verb_reads_w_and_b_files_and_writes_where_it_is_told(smoke_root, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HARNESS_RUNS", str(smoke_root))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", "smoke", "--no-figures", "--against", "QAE K=0.4"]) == 0
    path = tmp_path / "reports" / "smoke" / "index.html"
    assert capsys.readouterr().out.strip() == "reports/smoke/index.html"
    words = Page(path.read_text()).words
    assert "Relative change against QAE K=0.4" in words
    assert "curves from local" in words
    assert "offline-run-" in words


def test_gaps_and_folders_without_data_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    for first, last, stamp in ((1, 20, "20260101_000000"), (51, 80, "20260101_090000")):
        rows = wandb_log.rows(first, last, **{"actor/entropy": lambda step: 1 / step})
        config = {"seed": 1, "baseline": {"kind": "mean"}}
        wandb_log.write(tmp_path, "abc", [wandb_log.run("abc", config=config), *rows, wandb_log.leave()], stamp)
    (tmp_path / "wandb" / "offline-run-20260102_000000-purged").mkdir()
    source = ["--source", f"local:{tmp_path}", "--out", str(tmp_path / "page")]
    assert cli.main(["report", "mine", "--no-figures", *source]) == 0
    words = Page((tmp_path / "page" / "index.html").read_text()).words
    assert "abc (abc): steps 21 to 50 are missing: elsewhere there is a row every step" in words
    assert "purged is in no arm: offline-run-20260102_000000-purged has no .wandb file; nothing was logged" in words
    assert "runs 1 arms 1" in words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["smokee"], "did you mean smoke"), (["smoke", "--against", "maen"], "did you mean mean"),
     (["smoke", "--source", "locl"], "local"), (["smoke", "--filter", "seed=99"], "99")],
)  # fmt: skip
def test_mistakes_are_one_line_and_exit_code_2(smoke_root, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.setenv("HARNESS_RUNS", str(smoke_root))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    assert cli.main(["report", *arguments, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr().err
    assert captured.startswith("error: ")
    assert captured.count("\n") == 1
    assert said in captured
    assert not (tmp_path / "out").exists()


def test_why_nothing_is_said_about_accuracy(smoke, tmp_path):
    study = studies.of(smoke)
    tallies = {
        run.id: replace(known := study.tallies[run.id], problems=tuple((f"{b} {i}", p) for b, p in known.problems))
        for i, run in enumerate(study.runs)
    }
    odd = replace(study, tallies=tallies)
    found, why = results.attempt(odd)
    assert found is None
    words = " ".join(summary.sentences(odd, found, {}, why))
    assert "Nothing is said about accuracy: add_easy 0: left out, because all runs share no problems of it" in words
    assert "no evaluation outcomes" not in words


def test_no_spread_is_no_design_that_finds_every_difference(smoke):
    study = studies.of(smoke)
    right = {run: replace(known, correct=known.n) for run, known in study.tallies.items()}
    same = replace(study, tallies=right)
    words = " ".join(summary.sentences(same, results.final(same), {}))
    assert "80 % power" not in words
    assert "their scores do not scatter" in words


def test_configs_of_another_kind_still_give_a_page(smoke, tmp_path):
    def changed(run, **nodes):
        return replace(run, config={**run.config, **nodes})

    runs = [
        changed(smoke[0], baseline="x"), changed(smoke[1], seed={"a": 1}), changed(smoke[2], seed="two"),
        changed(smoke[3], baseline={"name": "qae", "K": "abc"}), changed(smoke[4], baseline={"name": "qae", "K": [1]}),
        changed(smoke[5], evaluation={"k": "abc"}), changed(smoke[6], evaluation={"k": 4}),
        changed(smoke[7], evaluation={"k": [0, "a", -1]}), smoke[8],
    ]  # fmt: skip
    page = Page(report.write("odd", runs, tmp_path, figures=False).read_text())
    assert "QAE" in page.words


def test_categories_and_rows_are_text_not_markup():
    bar = Bar(at="<b>x</b>", value=1.0, name="n", color="#000000", text="<i>t</i>")
    heat = Heat(values=np.eye(1), columns=("<b>c</b>",), rows=("<b>r</b>",), label="l")
    panels = (Panel(x=Axis(label="x"), y=Axis(label="y"), marks=(bar,), horizontal=True),
              Panel(x=Axis(label="x"), y=Axis(label="y"), marks=(heat,)))  # fmt: skip
    text = json.dumps(interactive.plots(Chart(key="k", title="t", caption="c", panels=panels)))
    assert "<b>" not in text
    assert "<i>" not in text
    assert all(f"&lt;b&gt;{name}" in text for name in "xcr")
    first = interactive.plots(Chart(key="k", title="t", caption="c", panels=panels))[0]
    assert first["layout"]["yaxis"]["categoryarray"] == first["data"][0]["y"]
