from __future__ import annotations

import pytest

from harness.config.grid import load, names
from harness.errors import HarnessError


def write(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return str(path)


def test_blocks_add_up_and_keys_multiply(tmp_path):
    sweep = load(
        write(
            tmp_path,
            """
question: which K?
overrides: [model=tiny]
grid:
  - baseline: mean
  - {baseline: qae, baseline.K: [0.2, 0.8]}
seeds: [1, 2]
""",
        )
    )
    assert [p.varied for p in sweep.points] == [
        ("baseline=mean", "seed=1"), ("baseline=mean", "seed=2"),
        ("baseline=qae", "baseline.K=0.2", "seed=1"), ("baseline=qae", "baseline.K=0.2", "seed=2"),
        ("baseline=qae", "baseline.K=0.8", "seed=1"), ("baseline=qae", "baseline.K=0.8", "seed=2"),
    ]  # fmt: skip
    assert sweep.points[0].overrides == ("model=tiny", "baseline=mean", "seed=1")
    assert (sweep.name, sweep.question) == ("study", "which K?")


def test_values_are_written_in_hydras_syntax(tmp_path):
    sweep = load(write(tmp_path, "grid: [{words: [[wait, 'let me']], a: [null], b: [true]}]\n"))
    assert sweep.points[0].varied[:3] == ("words=[wait,'let me']", "a=null", "b=true")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grids: []", "unknown key 'grids'; did you mean grid"),
        ("grid: []", "the grid expands to nothing"),
        ("grid: [{baseline: []}]", "baseline has no values, so the grid expands to nothing"),
        ("seeds: []", "the grid expands to nothing"),
        ("seeds: [1, 1]", "1 stands there twice"),
        ("seeds: 3", "expected a list of whole numbers"),
        ("overrides: model=tiny", "expected a list such as"),
        ("grid: {baseline: mean}", "expected a list of blocks"),
        ("budget_gpu_hours: lots", "expected a number of hours"),
        ("a: [", "not valid YAML"),
        ("- a", "expected a mapping"),
    ],
)
def test_mistakes_in_a_sweep_file(tmp_path, text, message):
    with pytest.raises(HarnessError, match=message):
        load(write(tmp_path, text))


def test_an_unknown_sweep_names_the_nearest():
    assert "smoke" in names()
    with pytest.raises(HarnessError, match="did you mean smoke"):
        load("smok")


TWICE = [
    "seeds: [1]\nseeds: [2]", "grid: [{baseline: qae, baseline.K: 0.2, baseline.K: 0.4}]",
    "grid: [&a {baseline: mean}]\nseeds: [1]\ngrid: [*a]",
]  # fmt: skip


@pytest.mark.parametrize("text", TWICE)
def test_a_key_that_stands_twice_is_an_error(tmp_path, text):
    with pytest.raises(HarnessError, match=r"the key '[\w.]+' stands twice in one mapping .*line \d"):
        load(write(tmp_path, text))


def test_anchors_and_merged_keys_are_read(tmp_path):
    text = "grid:\n- &a {baseline: qae, baseline.K: 0.2}\n- *a\n- {<<: *a, baseline.K: 0.4}\n"
    assert [p.varied[1] for p in load(write(tmp_path, text)).points] == [
        "baseline.K=0.2", "baseline.K=0.2", "baseline.K=0.4"
    ]  # fmt: skip


SELVES = [
    "grid: &a\n- *a", "grid: [{words: &w [*w]}]", "grid: [&a {baseline: mean, model: [*a]}]",
    f"grid: {'[' * 3000}{']' * 3000}",
]  # fmt: skip


@pytest.mark.parametrize("text", SELVES)
def test_what_holds_itself_or_is_endlessly_deep_is_an_error(tmp_path, text):
    with pytest.raises(HarnessError, match=r"study\.yaml: .*(holds itself|nested too deeply)"):
        load(write(tmp_path, text))


def test_a_folder_in_place_of_a_file(tmp_path):
    (tmp_path / "study.yaml").mkdir()
    with pytest.raises(HarnessError, match=r"study\.yaml is no file"):
        load(str(tmp_path / "study.yaml"))


@pytest.mark.parametrize("hours", [".nan", ".inf", "-1", "true"])
def test_a_budget_that_forbids_nothing_is_an_error(tmp_path, hours):
    with pytest.raises(HarnessError, match="budget_gpu_hours=.*expected a number of hours"):
        load(write(tmp_path, f"budget_gpu_hours: {hours}"))


@pytest.mark.parametrize("node", ["{agaist: mean}", "{against: [mean]}", "{against: mean, over: AIME}"])
def test_a_comparison_that_nothing_reads_is_an_error(tmp_path, node):
    with pytest.raises(HarnessError, match="compare"):
        load(write(tmp_path, f"compare: {node}"))
