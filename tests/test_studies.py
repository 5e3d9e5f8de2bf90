"""The studies of sweeps/ plan on prepared data, share their runs, and state what they are held against."""

from __future__ import annotations

import functools

import pytest

from analysis.report import published
from harness.config import compose, grid
from harness.errors import HarnessError
from harness.planning import estimates, listing
from harness.planning.plan import plan
from harness.slurm import live
from harness.store.runs import Store
from harness.tasks.data import prepared
from harness.tasks.data.catalogue import SOURCES
from harness.tasks.data.problem import Problem

pytestmark = pytest.mark.slow  # many processes, files or figures

STUDIES = [
    "main_table", "mask_ablation", "eps_high", "k_sensitivity", "model_size", "group_size", "kl_instead", "gspo_8b",
    "reward_shape", "small_model",
]  # fmt: skip
RECIPES = {"dapo": "Clip-Higher", "clip_cov": "Clip-Cov", "kl_cov": "KL-Cov", "gspo": "GSPO"}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """From the name of a sweep to its plan, on three made-up problems a set."""
    folder = tmp_path_factory.mktemp("studies")
    for source in SOURCES.values():
        problems = [Problem(f"Problem {i} of {source.name}?", str(i)) for i in range(3)]
        prepared.write(folder / "data" / f"{source.name}.parquet", prepared.rows(source, problems), {})

    @functools.cache
    def make(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HARNESS_DATA", str(folder / "data"))
            return grid.load(name), plan(
                grid.load(name),
                Store(folder / "runs"),
                compose.project_folder(),
                functools.partial(live.states, Store(folder / "runs")),
            )

    return make


def ids(entries, **wanted):
    """Ids of a plan's runs whose settings are the wanted ones, by dotted key with __ for the dot."""

    def value(entry, key):
        return functools.reduce(getattr, key.split("__"), entry.composed.settings)

    return {e.id for e in entries if all(value(e, key) == want for key, want in wanted.items())}


def test_all_studies_are_there():
    assert set(STUDIES) | {f"tiny/{name}" for name in STUDIES} | {"smoke"} <= set(grid.names())


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_plans_and_says_what_it_is_for(planned, name):
    study, entries = planned(name)
    assert study.question.endswith(("?", ".")), "it states its question"
    assert study.feeds
    assert len({entry.composed.settings.seed for entry in entries}) >= 3, "below three seeds nothing follows"
    assert {entry.composed.settings.platform for entry in entries} == {"cuda"}
    assert len({entry.id for entry in entries}) == len(entries), "no point stands there twice"
    assert study.gpu_hours == pytest.approx(estimates.gpu_hours(entries), rel=0.1)
    lines = "\n".join(estimates.lines(entries))
    assert "fits" in lines
    assert "NOT" not in lines
    assert "GPU-hours (estimate" in lines


@pytest.mark.parametrize("name", STUDIES)
def test_its_tiny_twin_runs_here(planned, name):
    study, entries = planned(f"tiny/{name}")
    assert {entry.composed.settings.platform for entry in entries} == {"cpu"}
    assert len(entries) <= 10
    twin, _ = planned(name)
    assert study.feeds == f"what {name} feeds"
    assert study.compare == twin.compare


@pytest.mark.parametrize("name", STUDIES)
def test_published_numbers_are_the_papers(planned, name):
    study, _ = planned(name)
    known = {(v.model, v.method, v.qae, v.benchmark, v.k, v.clip_high): v.value for v in published.VALUES}
    for row in study.published:
        model, method = row["model"], RECIPES[row["recipe"]]
        clip = row.get("clip_high", 4e-4 if method == "GSPO" else 0.28)
        for benchmark in ("AIME24", "AIME25", "AMC23"):
            for k, value in zip((1, 16), row.get(benchmark, []), strict=False):
                assert known[model, method, row["baseline"] == "qae", benchmark, k, clip] == value


def test_the_baseline_is_trained_once(planned):
    common = {
        "model__name": "qwen3_8b_base", "recipe__clip_high": 0.28, "recipe__group_size": 16,
        "data__overlong_buffer": 4096,
    }  # fmt: skip
    baseline = ids(planned("main_table")[1], **common, recipe__name="dapo", baseline__name="mean")
    assert len(baseline) == 3, "one a seed"
    for name in (
        "mask_ablation",
        "eps_high",
        "k_sensitivity",
        "model_size",
        "group_size",
        "kl_instead",
        "reward_shape",
    ):
        assert baseline <= ids(planned(name)[1], **common, baseline__name="mean"), name
    quantile = ids(planned("main_table")[1], **common, recipe__name="dapo", baseline__name="qae")
    for name in ("mask_ablation", "eps_high", "k_sensitivity", "model_size", "group_size", "reward_shape"):
        assert quantile <= ids(planned(name)[1], baseline__name="qae"), name
    gspo = ids(planned("main_table")[1], recipe__name="gspo")
    assert len(gspo) == 6
    assert gspo <= ids(planned("model_size")[1])
    low = ids(planned("mask_ablation")[1], recipe__clip_high=0.2, baseline__name="mean")
    assert low <= ids(planned("eps_high")[1])
    assert low <= ids(planned("kl_instead")[1]), "a recipe's name is no science"


def test_reward_shapes_differ(planned):
    shapes = {
        (c.settings.data.overlong_buffer, c.asked["reward"]["reward_kwargs"]["overlong_buffer_cfg"]["enable"])
        for c in (entry.composed for entry in planned("reward_shape")[1])
    }
    assert shapes == {(4096, False), (4096, True), (20479, True)}


def test_the_plan_tells_arms_apart(planned):
    study, entries = planned("eps_high")
    text = listing.plan(study, entries)
    assert "feeds: Table 1" in text
    assert "seed 1 recipe.clip_high=0.22" in text


def test_a_budget_stops_before_anything_is_started(planned, tmp_path):
    _, entries = planned("gspo_8b")
    cheap = grid.Sweep("x", "", (), {}, 10.0, tmp_path / "x.yaml")
    with pytest.raises(HarnessError, match=r"x\.yaml: budget_gpu_hours=10: .* GPU-hours \(estimate\)"):
        estimates.check_budget(cheap, entries)
    estimates.check_budget(grid.Sweep("x", "", (), {}, None, tmp_path / "x.yaml"), entries)


@pytest.mark.parametrize(
    ("line", "why"),
    [("gpu_hours: many", "gpu_hours='many'"), ("published: 3", "published=3"), ("feed: x", "did you mean feeds")],
)
def test_mistakes_in_a_study(line, why, tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(f"{line}\n")
    with pytest.raises(HarnessError, match=why):
        grid.load(str(file))
