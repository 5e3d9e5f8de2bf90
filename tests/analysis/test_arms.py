"""Arms: what belongs together, what it is called, and its colour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis import arms, palette
from harness.errors import HarnessError


def test_runs_that_differ_only_in_seed_are_one_arm(smoke):
    found = arms.group(smoke)
    assert [arm.label for arm in found] == [
        "mean (GRPO) · tiny (0.3M)", "QAE K=0.4 · tiny (0.3M)", "QAE K=0.6 · tiny (0.3M)",
    ]  # fmt: skip
    assert [arm.seeds for arm in found] == [3, 3, 3]
    assert found[1].legend == "QAE K=0.4 · tiny (0.3M) · 3 seeds"
    assert [run.get("seed") for run in found[0].runs] == [1, 2, 3]


def test_places_and_names_do_not_split_an_arm_but_settings_do(smoke):
    def changed(key, value):
        config = {**smoke[0].config, **({key: value} if "." not in key else {})}
        if "." in key:
            top, leaf = key.split(".")
            config[top] = {**smoke[0].config[top], leaf: value}
        return replace(smoke[0], id="other", config=config)

    for key, value in (("cluster.name", "slurm"), ("model.path", "/scratch/x"), ("words", ["hm"]), ("seed", 9)):
        assert len(arms.group([smoke[0], changed(key, value)])) == 1, key
    two = arms.group([smoke[0], changed("recipe.group_size", 8)])
    assert [arm.label for arm in two] == [
        "mean (GRPO) · tiny (0.3M) · group_size=16", "mean (GRPO) · tiny (0.3M) · group_size=8",
    ]  # fmt: skip


def test_grouping_by_keys(smoke):
    assert [arm.label for arm in arms.group(smoke, "K")] == ["mean (GRPO)", "K=0.4", "K=0.6"]
    assert [arm.label for arm in arms.group(smoke, "baseline")] == ["mean (GRPO)", "QAE"]
    by_two = arms.group(smoke, ["model", "baseline.K"])
    assert len(by_two) == 3
    assert arms.group(smoke, "baseline")[1].legend == "QAE · 6 runs"
    with pytest.raises(HarnessError, match="did you mean baseline.K"):
        arms.group(smoke, "baseline.k")


def test_runs_without_config_are_arms_by_their_label(smoke):
    bare = [replace(run, config={}, label=f"log {i // 2}") for i, run in enumerate(smoke[:4])]
    assert [arm.label for arm in arms.group(bare)] == ["log 0", "log 1"]


def test_pick(smoke):
    found = arms.group(smoke)
    assert arms.pick(found, "mean") is found[0]
    assert arms.pick(found, "QAE K=0.6") is found[2]
    assert arms.pick(found, "nothing") is None
    assert arms.pick(found, "tiny") is None  # means all of them


def test_no_runs_are_refused():
    with pytest.raises(HarnessError, match="no runs"):
        arms.group([])


def test_an_arm_keeps_its_colour_whatever_is_shown_beside_it(smoke):
    every = {arm.label: arm.color for arm in arms.group(smoke)}
    for arm in arms.group([run for run in smoke if run.get("baseline.K", None) != 0.4]):
        assert arm.color == every[arm.label]
    assert len(set(every.values())) == 3


def test_arms_beyond_the_colours_differ_in_dash():
    identities = [("qae", f"{i / 40:g}", "both") for i in range(1, 30)]
    styles = palette.assign(identities)
    assert len(set(styles)) == len(styles)


def _lab(color, blindness):
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(blindness) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado et al. 2009, severity 1.0
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}


@pytest.mark.parametrize("kind", VISION)
def test_the_first_colours_are_told_apart_without_red_or_green(kind):
    """A difference of 10 in CIELAB is plainly visible; the four arms that most sweeps hold keep it."""
    labs = [_lab(color, VISION[kind]) for color in palette.COLORS[:4]]
    distances = [np.linalg.norm(a - b) for i, a in enumerate(labs) for b in labs[:i]]
    assert min(distances) > 10
    assert all(np.linalg.norm(lab - _lab("#FFFFFF", VISION[kind])) > 25 for lab in labs)


def test_a_label_says_only_what_tells_arms_of_one_name_apart(smoke):
    def more(run, samples):
        config = {**run.config, "evaluation": {**run.config["evaluation"], "samples": samples}}
        config["verl"] = {"algorithm": {"adv_estimator": run.get("baseline.name"), "val_n": samples}}
        return replace(run, id=f"{run.id}{samples}", config=config)

    found = arms.group([more(smoke[0], 16), more(smoke[3], 16), more(smoke[3], 32)])
    assert [arm.label for arm in found] == [
        "mean (GRPO) · tiny (0.3M) · samples=16", "QAE K=0.4 · tiny (0.3M) · samples=16",
        "QAE K=0.4 · tiny (0.3M) · samples=32",
    ]  # fmt: skip
