"""Final scores, their comparison, the published numbers and the table."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from analysis import figures
from analysis.comparison import ablation as studies
from analysis.comparison import arms, results
from analysis.report import published, tables
from analysis.sources.tally import ALL
from harness.errors import HarnessError


@pytest.fixture(scope="module")
def study(smoke):
    return studies.of(smoke)


@pytest.fixture(scope="module")
def final(study):
    return results.final(study)


def test_estimates_are_the_plain_means(study, final):
    for arm in final.arms:
        for k in (1, 16):
            curves = [study.tallies[run.id].curve(k)[40] for run in arm.runs]
            assert final.cell(arm, ALL, k).interval.estimate == pytest.approx(np.mean(curves))
    assert final.benchmarks == ("add_easy", "add_hard", ALL)
    assert final.step == 40


def test_the_baseline_arm_has_no_difference_and_others_are_adjusted(final):
    base, *others = final.arms
    assert final.against.label == base.label
    assert final.cell(base, ALL, 1).difference is None
    raw = [final.cell(arm, ALL, k).difference.p for k in final.ks for arm in others]
    adjusted = [final.cell(arm, ALL, k).adjusted for k in final.ks for arm in others]
    assert all(a >= p for a, p in zip(adjusted, raw, strict=True))
    assert min(adjusted) == pytest.approx(min(1.0, len(raw) * min(raw)))


def test_twice_the_same(study, final):
    again = results.final(study)
    assert {key: cell.interval for key, cell in again.cells.items()} == {
        key: cell.interval for key, cell in final.cells.items()
    }


def test_an_unfinished_run_does_not_pull_the_others_back(smoke, tmp_path):
    folder = tmp_path / "short"
    target = folder / "outcomes" / "eval"
    target.mkdir(parents=True)
    source = smoke[0].folder / "outcomes" / "eval" / "step_000010.parquet"
    (target / source.name).write_bytes(source.read_bytes())
    short = replace(smoke[0], folder=folder, state="crashed")
    found = results.final(studies.of([short, *smoke[1:]]))
    assert found.step == 40
    assert found.arms[0].seeds == 2
    assert any("no evaluation at step 40" in note for note in found.notes)


def test_scores_of_an_early_step_say_who_stopped_there(smoke, tmp_path):
    target = tmp_path / "short" / "outcomes" / "eval"
    target.mkdir(parents=True)
    source = smoke[0].folder / "outcomes" / "eval" / "step_000010.parquet"
    (target / source.name).write_bytes(source.read_bytes())
    runs = [replace(run, state="unknown") for run in (replace(smoke[0], folder=tmp_path / "short"), *smoke[1:])]
    found = results.final(studies.of(runs))
    assert found.step == 10
    assert "scores are of step 10" in found.notes[-1]
    assert f"({smoke[0].id}) ends at 10" in found.notes[-1]


def unscored(runs):
    """Neither outcome files nor logged scores."""
    return [
        replace(r, folder=None, history=r.history[[c for c in r.history if not c.startswith("eval/")]]) for r in runs
    ]


def test_no_outcomes_are_named(smoke):
    with pytest.raises(HarnessError, match="none of 9 runs has evaluation outcomes"):
        results.final(studies.of(unscored(smoke)))


def test_an_unknown_baseline_is_an_error_that_names_the_nearest(study):
    with pytest.raises(HarnessError, match="'QAE K=0.41': no such arm; did you mean QAE K=0.4"):
        results.final(study, "QAE K=0.41")
    assert results.attempt(study, "mean")[0] is not None


def test_a_study_without_a_mean_baseline_is_compared_with_its_first_arm_and_says_so(smoke):
    found = results.final(studies.of([run for run in smoke if run.get("baseline.name") == "qae"]))
    assert found.against is found.arms[0]
    assert found.notes[0].startswith("no arm 'mean': compared with QAE K=0.")


def test_a_baseline_that_was_not_evaluated_is_named_as_such(smoke):
    cut = [replace(run, folder=None) if run.get("baseline.name") == "mean" else run for run in smoke]
    found = results.final(studies.of(cut))
    assert any(note.startswith("mean (GRPO)") and "was not evaluated at step 40" in note for note in found.notes)


def test_nothing_evaluated_is_no_table(smoke):
    none, why = results.attempt(studies.of(unscored(smoke)))
    assert none is None
    assert "evaluation outcomes" in why


def test_logged_scores_have_students_interval_over_seeds(smoke, final):
    found = results.final(studies.of([replace(run, folder=None) for run in smoke]))
    assert (found.logged, found.step, found.benchmarks, found.ks) == (True, final.step, final.benchmarks, final.ks)
    base, arm = found.arms[:2]
    cell = found.cell(arm, found.primary, 1)
    x, y = (np.array(found.cell(a, found.primary, 1).by_seed) for a in (arm, base))
    assert x == pytest.approx(final.cell(final.arms[1], final.primary, 1).by_seed)
    student = stats.t.ppf(0.975, 2) * stats.sem(x)
    assert cell.interval.low < x.mean() - 0.8 * student
    assert cell.interval.high - cell.interval.low == pytest.approx(2 * student, rel=0.1)  # Wilson's, off the middle
    assert cell.difference.p == pytest.approx(stats.ttest_ind(x, y, equal_var=False).pvalue)
    welch = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert [cell.difference.interval.low, cell.difference.interval.high] == pytest.approx([*welch])


def test_verls_own_validation_is_pass_at_one_and_its_best_is_not_pass_at_k(smoke):
    def renamed(run):
        names = {"eval/add_easy/pass@1": "val-core/easy/acc/mean@8",
                 "eval/add_hard/pass@1": "val-aux/hard/acc/mean@8",
                 "eval/add_easy/pass@16": "val-core/easy/acc/best@16/mean"}  # fmt: skip
        kept = run.history[["step", *names]].rename(columns=names)
        return replace(run, folder=None, history=kept)

    study = studies.of([renamed(run) for run in smoke])
    found = results.final(study)
    assert (study.benchmarks, found.ks) == (("easy", "hard"), (1,))
    easy, hard, both = (found.cell(found.arms[0], name, 1).interval.estimate for name in found.benchmarks)
    assert both == pytest.approx((easy + hard) / 2)
    assert study.pass_curves(study.arms[0], 16) is None


@pytest.mark.parametrize("folder", [True, False])
def test_repeated_runs_of_one_seed_are_one_seed(smoke, folder):
    """Three copies of seed 1 must not become three seeds, from which claims may follow."""
    one = [run if folder else replace(run, folder=None) for run in smoke if run.get("seed") == 1]
    study = studies.of([replace(run, id=f"{run.id}{i}") for run in one for i in range(3)])
    found = results.final(study)
    assert [arm.seeds for arm in found.arms] == [1, 1, 1]
    assert len(found.cell(found.arms[1], found.primary, 1).by_seed) == 1
    difference = found.cell(found.arms[1], found.primary, 1).difference
    assert not difference.method_level
    assert not study.curves(study.arms[0], "actor/entropy").has_band
    assert not study.pass_curves(study.arms[0], 1).has_band
    from analysis.report.cautions import cautions

    assert any("several runs of one seed (3 of seed 1)" in line for line in cautions(study, found))


def test_several_settings_are_each_compared_with_their_own_baseline(smoke):
    """Twice the same runs, as if with another group size: the differences are those of the half alone."""
    other = [
        replace(run, id=f"x{run.id}", config={**run.config, "recipe": {**run.config["recipe"], "group_size": 4}})
        for run in smoke
    ]
    alone = results.final(studies.of(smoke))
    found = results.final(studies.of([*smoke, *other]))
    assert len(found.arms) == 6
    assert found.base_name == "the baseline of the same setting"
    expected = {arm.name: alone.cell(arm, ALL, 1).difference for arm in alone.arms}
    for arm in found.arms:
        difference = found.cell(arm, ALL, 1).difference
        base = found.base(arm)
        if arm.name == "mean (GRPO)":
            assert (difference, base) == (None, None)
        else:
            assert base.name == "mean (GRPO)"
            assert base.setting == arm.setting
            assert difference.interval.estimate == expected[arm.name].interval.estimate
    content = tables.table(found)
    assert [(arm.name, arm.setting.rsplit("=")[-1]) for arm in content.arms] == [
        (name, size) for size in ("4", "16") for name in ("mean (GRPO)", "QAE K=0.4", "QAE K=0.6")
    ], "as in the paper, below the baseline that it is added to"
    assert content.against[0] == ""
    assert content.against[1] == content.arms[0].label
    assert "against the baseline of the same setting" in content.caption
    bars = figures.bars.settings(found).panels[0].marks
    assert [(bar.at, bar.name) for bar in bars[:3]] == [("4", n) for n in ("mean (GRPO)", "QAE K=0.4", "QAE K=0.6")]
    with pytest.raises(HarnessError, match="the same setting"):
        figures.bars.settings(alone)
    config = results.final(studies.of([*smoke, *other]), {"baseline.name": "mean", "recipe.group_size": 4})
    assert config.base_name == "mean (GRPO) · group_size=4"
    assert len(config.bases) == 5, "one baseline for all, where the sweep says which"


def paper_arm(smoke, **changes):
    config = {
        "seed": 1, "model": {"name": "qwen3-8b-base", "path": "Qwen/Qwen3-8B-Base"},
        "baseline": {"name": "mean", "mask": "both"}, "recipe": {"name": "dapo", "clip_high": 0.28},
    }  # fmt: skip
    for key, value in changes.items():
        top, leaf = key.split("__")
        config[top] = {**config[top], leaf: value}
    return arms.group([replace(smoke[0], config=config)])[0]


@pytest.mark.parametrize(
    ("changes", "benchmark", "k", "value"),
    [
        ({}, "AIME25", 1, 32.71),
        ({}, "math/aime_2024", 16, 71.23),
        ({"baseline__name": "qae", "baseline__K": 0.4}, "aime24", 1, 48.23),
        ({"baseline__name": "qae", "recipe__name": "kl_cov"}, "AMC23", 16, 96.25),
        ({"recipe__clip_high": 0.22}, "AIME24", 1, 34.90),
        ({"recipe__clip_high": 0.22}, "AIME25", 1, None),
        ({"model__path": "/scratch/Qwen3-14B-Base", "model__name": "x", "baseline__name": "qae"}, "AIME25", 1, 46.88),
        ({"baseline__name": "qae", "baseline__mask": "positive"}, "AIME25", 1, None),
        ({"model__name": "tiny", "model__path": None}, "AIME25", 1, None),
        ({"baseline__name": "rloo"}, "AIME25", 1, None),
        ({"baseline__name": "qae", "baseline__K": 0.2}, "AIME25", 1, None),
        ({"baseline__name": "qae", "baseline__K": 0.6}, "AIME25", 1, None),
        ({"baseline__name": "qae", "baseline__K": 0.6, "recipe__name": "kl_cov"}, "AIME25", 1, 33.44),
        ({"recipe__name": "dapo_no_clip_higher", "recipe__clip_high": 0.2}, "AIME24", 1, 32.29),
        ({}, "AIME25", 8, None),
        ({}, "add_easy", 1, None),
    ],
)
def test_published_values(smoke, changes, benchmark, k, value):
    found = published.find(paper_arm(smoke, **changes), benchmark, k)
    assert (None if found is None else found.value) == value


def test_the_published_table_is_complete():
    assert len(published.VALUES) == 8 * 6 + 4 + 4
    assert len({(v.model, v.method, v.qae, v.benchmark, v.k, v.clip_high) for v in published.VALUES}) == 56


def test_csv_holds_everything_and_reads_back(final):
    rows = list(csv.DictReader(io.StringIO(tables.render(tables.table(final), "csv"))))
    assert len(rows) == 3 * 6
    row = next(r for r in rows if r["arm"].startswith("QAE K=0.4") and (r["benchmark"], r["k"]) == (ALL, "16"))
    cell = final.cell(final.arms[1], ALL, 16)
    assert float(row["percent"]) == pytest.approx(100 * cell.interval.estimate, abs=1e-3)
    assert float(row["low"]) <= float(row["percent"]) <= float(row["high"])
    assert float(row["relative_percent"]) == pytest.approx(100 * cell.difference.relative, abs=1e-3)
    assert (row["seeds"], row["published"]) == ("3", "")


def test_markdown_and_latex_and_html_have_a_row_an_arm(final):
    content = tables.table(final)
    assert tables.render(content, "md").count("\n| ") == 3
    tex = tables.render(content, "tex")
    assert tex.count(r"\\") == 2 + 3
    assert r"QAE K=0.4 $\cdot$ tiny (0.3M) & 3 &" in tex
    assert tables.render(content, "html").count("<tr>") == 2 + 3
    with pytest.raises(HarnessError, match="valid: csv, html, md, tex"):
        tables.render(content, "docx")


def test_problems_that_all_are_solved_leave_doubt(study):
    solved = {run: replace(tally, correct=tally.n) for run, tally in study.tallies.items()}
    found = results.final(replace(study, tallies=solved))
    cell = found.cell(found.arms[1], found.primary, 1)
    assert cell.interval.low < 0.99
    assert cell.interval.high == 1
    assert cell.difference.interval.low < 0 < cell.difference.interval.high
    assert "+0.0 %" in tables.render(tables.table(found), "md")


def test_a_fall_has_a_minus_in_latex_and_zero_has_no_sign_of_its_own(final):
    content = tables.table(final)
    fallen = replace(content.rows[1][0], relative=-3.14, points=(-1.0, -2.0, 0.0))
    still = replace(fallen, relative=-0.04)
    content = replace(content, rows=(content.rows[0], (fallen, still, *content.rows[1][2:]), *content.rows[2:]))
    assert r"{\scriptsize $-$3.1 \%}" in tables.render(content, "tex")
    assert "(+0.0 %)" in tables.render(content, "md")
    assert "-0.0" not in tables.render(content, "md")


def test_special_characters_are_escaped(final):
    evil = replace(final.arms[0], label="a_b & <script>|50%")
    content = replace(tables.table(final), arms=(evil, *final.arms[1:]))
    assert r"a\_b \& <script>|50\%" in tables.render(content, "tex")
    assert "<script>" not in tables.render(content, "html")
    assert "\\|50%" in tables.render(content, "md")


def far_apart(smoke, seeds, better=1):
    """The table of two arms of so many seeds that differ as much as can be."""
    study = studies.of([run for run in smoke if run.get("seed") <= seeds])
    tallies = dict(study.tallies)
    for run in study.arms[better].runs:
        tallies[run.id] = replace(tallies[run.id], correct=tallies[run.id].n.copy())
    for run in study.arms[1 - better].runs:
        tallies[run.id] = replace(tallies[run.id], correct=np.zeros_like(tallies[run.id].n))
    return tables.table(results.final(replace(study, tallies=tallies)))


@pytest.mark.parametrize("seeds", [1, 2])
def test_an_arrow_needs_three_seeds(smoke, seeds):
    few = far_apart(smoke, seeds).rows[1][-1]
    assert (few.direction, few.adjusted) == (0, None)
    entry = far_apart(smoke, 3).rows[1][-1]
    assert entry.direction == 1
    assert entry.points[0] == pytest.approx(100.0)
    assert tables.change(entry).endswith("↑")


@pytest.mark.parametrize("better", [0, 1])
def test_bold_is_the_best_of_a_column_and_arrows_show_the_direction(smoke, better):
    """A significant loss is not bold: that is the baseline above it."""
    content = far_apart(smoke, 3, better)
    base, arm = content.rows[0][-1], content.rows[1][-1]
    assert (base.best, arm.best) == (better == 0, better == 1)
    assert arm.direction == (1 if better else -1)
    text = tables.render(content, "html")
    assert ("<strong>100.0</strong>" in text, "<strong>0.0</strong>" in text) == (True, False)
    assert ("↓" in text) == (better == 0)
    tex = tables.render(content, "tex")
    assert (r"\textbf{100.0}" in tex, r"\textbf{0.0}" in tex) == (True, False)
    assert (r"$\downarrow$" in tex) == (better == 0)
    assert "**100.0**" in tables.render(content, "md")


def with_benchmarks(study, change):
    """The study with the evaluations of each run put through `change(run number, problems)`, which renames problems."""
    tallies = {}
    for number, run in enumerate(study.runs):
        known = study.tallies[run.id]
        tallies[run.id] = replace(known, problems=tuple(change(number, problem) for problem in known.problems))
    return replace(study, tallies=tallies)


def test_a_benchmark_that_not_all_runs_share_costs_its_column_alone(study, final):
    changed = with_benchmarks(study, lambda run, p: ("other", p[1]) if run < 3 and p[0] == "add_hard" else p)
    found = results.final(changed)
    assert found.benchmarks == ("add_easy",)
    arm, base = found.arms[1], found.against
    assert found.cell(arm, "add_easy", 1).interval.estimate == final.cell(arm, "add_easy", 1).interval.estimate
    assert base is found.arms[0]
    assert sum("left out, because all runs share no problems of it" in note for note in found.notes) == 2


def test_a_benchmark_of_one_problem_costs_its_column_alone(study, final):
    first = study.tallies[study.runs[0].id].problems[0]
    changed = with_benchmarks(study, lambda run, p: ("single", p[1]) if p == first else p)
    tallies = {}
    for run, known in changed.tallies.items():
        order = sorted(range(len(known.problems)), key=known.problems.__getitem__)
        tallies[run] = replace(
            known,
            problems=tuple(known.problems[i] for i in order),
            n=known.n[:, order],
            correct=known.correct[:, order],
        )
    found = results.final(replace(changed, tallies=tallies))
    assert found.benchmarks == ("add_easy", "add_hard", ALL)
    assert any(note.startswith("single: left out, because all runs share 1 problem of it") for note in found.notes)
    arm = found.arms[0]
    assert found.cell(arm, "add_hard", 1).interval.estimate == final.cell(arm, "add_hard", 1).interval.estimate


def test_no_benchmark_in_common_is_an_error_that_names_them(study):
    with pytest.raises(HarnessError, match=r"add_easy 0: left out, .*add_hard 8: left out"):
        results.final(with_benchmarks(study, lambda run, p: (f"{p[0]} {run}", p[1])))


def test_labels_cannot_change_the_tables_form(final):
    odd = "[x] * <b>|\ny_&%"
    content = tables.table(replace(final, arms=tuple(replace(arm, label=odd) for arm in final.arms)))
    markdown = tables.as_markdown(content)
    assert "<b>" not in markdown
    assert "| [x] * &lt;b&gt;\\| y_&amp;% | 3 |" in markdown
    assert len(markdown.split("\n\n")[0].splitlines()) == 2 + len(final.arms)
    row = tables.as_latex(content).splitlines()[6]
    assert row.startswith(r"{[}x] {*} <b>| y\_\&\% & 3 &")
