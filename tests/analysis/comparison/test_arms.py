"""Arms: what belongs together, what it is called, and its colour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.comparison import arms, palette
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
        "mean (GRPO) · tiny (0.3M) · group_size=8", "mean (GRPO) · tiny (0.3M) · group_size=16",
    ]  # fmt: skip


def settings(run, name, K=None, **changes):
    """A run of another setting; `__` in a keyword is a dot, and `clip` is set as the harness and as verl call it."""
    config = {
        **{key: value for key, value in run.config.items() if key != "verl"},
        "baseline": {"name": name} | ({"K": K, "mask": "both"} if K else {}),
        "recipe": {"name": "dapo", "group_size": 16, "clip_high": 0.28},
        "verl": {"algorithm": {"adv_estimator": "qae" if K else "grpo"}, "actor": {"use_kl_loss": False}},
    }
    for key, value in changes.items():
        top, leaf = key.split("__")
        config[top] = {**config[top], leaf: value}
    config["verl"]["actor"] = {"clip_ratio_high": config["recipe"]["clip_high"], **config["verl"]["actor"]}
    return replace(run, id=f"{name}{K}{changes}", config=config)


def test_a_label_says_the_setting_once_and_only_what_tells_arms_apart(smoke):
    run = smoke[0]
    clips = [settings(run, *b, recipe__clip_high=c) for c in (0.28, 0.2) for b in (("mean",), ("qae", 0.4))]
    assert [arm.short for arm in arms.group(clips)] == [
        "mean (GRPO) · clip_high=0.2", "mean (GRPO) · clip_high=0.28",
        "QAE K=0.4 · clip_high=0.2", "QAE K=0.4 · clip_high=0.28",
    ]  # fmt: skip
    recipes = [
        settings(run, "mean", recipe__name="gspo", recipe__clip_high=4e-4, verl__loss_agg_mode="seq"),
        settings(run, "mean"),
        settings(run, "qae", 0.4),
        settings(run, "mean", recipe__name="kl_loss", verl__actor={"use_kl_loss": True, "kl_loss_coef": 0.01}),
        settings(run, "mean", recipe__name="kl_loss", verl__actor={"use_kl_loss": True, "kl_loss_coef": 0.001}),
    ]
    assert sorted(arm.short for arm in arms.group(recipes)) == [
        "QAE K=0.4 · recipe=dapo", "mean (GRPO) · recipe=dapo", "mean (GRPO) · recipe=gspo",
        "mean (GRPO) · recipe=kl_loss · kl_loss_coef=0.001", "mean (GRPO) · recipe=kl_loss · kl_loss_coef=0.01",
    ]  # fmt: skip
    sizes = [settings(run, "mean", recipe__group_size=size) for size in (16, 4, 8)]
    assert [arm.setting for arm in arms.group(sizes)] == ["group_size=4", "group_size=8", "group_size=16"]
    models = [settings(run, *b, model__name=m) for m in ("small", "tiny") for b in (("mean",), ("qae", 0.4))]
    assert [arm.label for arm in arms.group(models)] == [
        "mean (GRPO) · small (0.3M)", "QAE K=0.4 · small (0.3M)", "mean (GRPO) · tiny (0.3M)", "QAE K=0.4 · tiny (0.3M)",
    ]  # fmt: skip
    assert arms.group(models)[0].short == "mean (GRPO) · small (0.3M)", "the model is what differs"


def test_an_arm_is_held_against_the_baseline_of_its_own_setting(smoke):
    run = smoke[0]
    clips = [settings(run, *b, recipe__clip_high=c) for c in (0.28, 0.2) for b in (("mean",), ("qae", 0.4))]
    found = arms.group([*clips, settings(run, "qae", 0.4, recipe__clip_high=0.2, recipe__group_size=4)])
    means = arms.meant(found, "mean")
    assert [arm.runs[0].get("recipe.clip_high") for arm in means] == [0.2, 0.28]
    for arm in found:
        if arm not in means:
            assert arms.counterpart(arm, means).runs[0].get("recipe.clip_high") == arm.runs[0].get("recipe.clip_high")
    (one,) = arms.meant(found, {"baseline.name": "mean", "recipe.clip_high": 0.28})
    assert one is means[1]
    assert arms.meant(found, "mean clip_high=0.28") == [means[1]]
    assert arms.meant(found, {"baseline.name": "mean", "recipe.clip_high": 0.3}) == []


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
