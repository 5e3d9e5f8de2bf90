"""Seeds and labels from the names of files."""

from __future__ import annotations

import pytest

from analysis.comparison import ablation as studies
from analysis.comparison import arms, results
from analysis.sources import console, csvlog, names


@pytest.mark.parametrize(
    ("given", "labels", "seeds"),
    [
        (["mean_seed1", "mean_seed2", "qae_seed1"], ["mean", "mean", "qae"], [1, 2, 1]),
        (["mean-s1", "mean-s2", "qae-s1"], ["mean", "mean", "qae"], [1, 2, 1]),
        (["qwen-s1", "llama"], ["qwen-s1", "llama"], [None, None]),  # a model of that name is no seed
        (["seed=3/train", "seed=4/train"], ["runs", "runs"], [3, 4]),
        (["run_a_metrics", "run_b_metrics"], ["a", "b"], [None, None]),
        (["seedling", "unseeded2"], ["seedling", "unseeded2"], [None, None]),
        (["a", "a_b"], ["a", "a_b"], [None, None]),
    ],
)
def test_names_tell_seeds_and_labels(tmp_path, given, labels, seeds):
    for name in given:
        path = tmp_path / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("step,entropy_avg\n1,0.5\n")
    runs = {run.id: run for run in csvlog.load(tmp_path)}
    assert len(runs) == len(given)
    byname = [runs[name if name in runs else name.split("/")[0]] for name in given]
    assert [run.label for run in byname] == labels
    assert [run.get("seed", None) for run in byname] == seeds


def test_seeds_of_console_logs_are_one_arm_with_intervals(tmp_path):
    for arm, shift in (("grpo", 0.0), ("qae", 0.05)):
        for seed in (1, 2, 3):
            lines = [
                f"step:{step} - actor/entropy:{0.5 + shift} - val-core/m/acc/mean@8:{0.3 + shift + seed / 100}"
                for step in (1, 2)
            ]
            (tmp_path / f"{arm}_seed{seed}.log").write_text("\n".join(lines))
    study = studies.of(console.load(tmp_path))
    assert [(arm.label, arm.seeds) for arm in study.arms] == [("grpo", 3), ("qae", 3)]
    found = results.final(study, "grpo")
    cell = found.cell(found.arms[1], found.primary, 1)
    assert cell.difference.interval.estimate == pytest.approx(0.05)
    assert cell.by_seed == pytest.approx((0.36, 0.37, 0.38))
    assert cell.difference.method_level


def test_logs_below_a_folder_are_found_and_told_apart(tmp_path):
    for name in ("one", "two"):
        for attempt in ("001", "002"):
            folder = tmp_path / name / "attempts" / attempt
            folder.mkdir(parents=True)
            (folder / "stdout.log").write_text("step:1 - actor/entropy:0.5\n")
    hidden = tmp_path / ".cache"
    hidden.mkdir()
    (hidden / "x.log").write_text("step:1 - actor/entropy:0.5\n")
    found = console.load(tmp_path)
    assert [run.label for run in found] == ["one/attempts/001", "one/attempts/002", "two/attempts/001",
                                            "two/attempts/002"]  # fmt: skip


def test_nothing_is_cut_that_tells_two_runs_apart():
    assert names.shortened(["x_a", "x_b"]) == ["a", "b"]
    assert names.shortened(["x_a"]) == ["x_a"]
    assert names.shortened(["x", "x_b"]) == ["x", "x_b"]
    assert names.shortened(["abc", "abd"]) == ["abc", "abd"]


def test_arms_of_one_seed_each_stay_apart(tmp_path):
    for name in ("mean_seed1", "qae_seed1"):
        (tmp_path / f"{name}.csv").write_text("step,entropy_avg\n1,0.5\n")
    assert [arm.label for arm in arms.group(csvlog.load(tmp_path))] == ["mean", "qae"]
