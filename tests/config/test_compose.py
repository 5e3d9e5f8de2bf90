from __future__ import annotations

import pytest

from harness.config import reference
from harness.config.compose import compose, groups
from harness.errors import HarnessError


def full(*overrides):
    return reference.merged(compose(overrides).asked)


def test_settings_reach_verl():
    verl = full("baseline=qae", "baseline.K=0.2", "seed=7", "steps=12", "recipe=dapo")
    assert verl["algorithm"]["adv_estimator"] == "qae"
    assert verl["algorithm"]["qae"]["K"] == 0.2
    assert verl["trainer"]["total_training_steps"] == 12
    assert verl["data"]["seed"] == 7
    assert verl["actor_rollout_ref"]["actor"]["clip_ratio_high"] == 0.28
    assert verl["algorithm"]["filter_groups"]["enable"] is True
    assert verl["actor_rollout_ref"]["rollout"]["n"] == verl["actor_rollout_ref"]["actor"]["rollout_n"] == 16


def test_what_nobody_mentions_keeps_verls_default():
    verl = full()
    default = reference.load()
    assert verl["actor_rollout_ref"]["actor"]["clip_ratio_c"] == default["actor_rollout_ref"]["actor"]["clip_ratio_c"]
    assert "qae" not in verl["algorithm"], "a mean baseline carries no K"


@pytest.mark.parametrize("baseline", ["mean", "mean_no_std", "qae", "rloo"])
@pytest.mark.parametrize("recipe", ["grpo", "dapo"])
@pytest.mark.parametrize("model", ["tiny", "small"])
def test_every_combination_composes(baseline, recipe, model):
    composed = compose([f"baseline={baseline}", f"recipe={recipe}", f"model={model}"])
    assert composed.settings.baseline.name == baseline
    assert composed.settings.platform == "cpu"
    assert reference.unknown_keys(composed.asked) == []


def test_all_of_verl_can_be_set():
    verl = full("verl.actor_rollout_ref.actor.optim.weight_decay=0.5", "verl.actor_rollout_ref.rollout.top_p=0.9")
    assert verl["actor_rollout_ref"]["actor"]["optim"]["weight_decay"] == 0.5
    assert verl["actor_rollout_ref"]["rollout"]["top_p"] == 0.9


def test_a_setting_under_verls_name_is_the_same_setting():
    composed = compose(["verl.actor_rollout_ref.actor.optim.lr=1e-6", "verl.actor_rollout_ref.rollout.n=8"])
    assert composed.settings.recipe.learning_rate == 1e-6
    assert composed.settings.recipe.group_size == 8
    assert composed.asked["actor_rollout_ref"]["rollout"]["n"] == 8


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "verl.actor_rollout_ref.actor.optim.lrr=1",
            r"verl\.actor_rollout_ref\.actor\.optim\.lrr: verl .* has no such key \(set in the override .*\); "
            r"did you mean verl\.actor_rollout_ref\.actor\.optim\.lr",
        ),
        ("verl.trainer=5", r"verl\.trainer is a group of keys"),
        ("baseline=qea", r"baseline=qea: conf/baseline has no 'qea'; did you mean qae"),
        ("basline.name=qae", r"no setting 'basline.name'; did you mean baseline\.name"),
        ("+seed=3", "leave out the '\\+'"),
        ("~seed", "cannot be deleted"),
        ("seed=1,2", "names several values"),
        ("seed=one", r"seed='one': expected a whole number"),
        ("foo bar", "write key=value"),
        ("steps=0", r"steps=0: at least 1"),
        ("seed=4294967296", r"seed=4294967296: 0 to 4294967295"),
        ("evaluation.k=[]", r"evaluation\.k=\[\]: name at least one k"),
        ("evaluation.k=[0]", r"evaluation\.k=0: k is 1 or more"),
        ("evaluation.samples=32768", r"evaluation\.samples=32768: 1 to 32767"),
        ("recipe.group_size=32768", r"recipe\.group_size=32768: at most 32767"),
        ("baseline@x=mean", r"groups have one place each: write baseline=\.\.\."),
        ("baseline.name=qae", r"a name alone changes no estimator: choose it as baseline=\.\.\."),
        ("platform=cuda", r"model\.resources\.gpus=0: platform=cuda needs at least 1 GPU"),
    ],
)
def test_mistakes_name_the_key_and_the_remedy(override, message):
    with pytest.raises(HarnessError, match=message):
        compose([override])


def test_a_wrong_verl_key_in_conf_names_its_file(tmp_path, monkeypatch):
    import shutil

    from harness.config import compose as module

    shutil.copytree(module.project_folder() / "conf", tmp_path / "conf")
    recipe = tmp_path / "conf" / "recipe" / "grpo.yaml"
    recipe.write_text(recipe.read_text().replace("entropy_coeff", "entropie_coeff"))
    monkeypatch.setattr(module, "project_folder", lambda: tmp_path)
    module.forget()
    try:
        with pytest.raises(
            HarnessError, match=r"entropie_coeff: .*\(set in conf/recipe/grpo.yaml\); did you mean .*entropy_coeff"
        ):
            compose([])
    finally:
        module.forget()


def test_hydras_global_state_is_left_as_it_was():
    from hydra.core.global_hydra import GlobalHydra

    before = GlobalHydra.instance().hydra
    compose(["seed=99"])
    assert GlobalHydra.instance().hydra is before


def test_groups_are_the_folders_of_conf():
    assert set(groups()) == {"platform", "model", "baseline", "recipe", "data", "evaluation", "cluster", "tracking"}


def test_a_mask_on_shaped_rewards_needs_to_know_what_a_success_is():
    masked = ["baseline=qae", "baseline.mask=negative"]
    compose([*masked, "recipe=grpo"])
    compose([*masked, "recipe=dapo", "baseline.success_threshold=0.5"])
    with pytest.raises(HarnessError, match=r"baseline\.mask=negative: recipe=dapo .* set baseline\.success_threshold"):
        compose([*masked, "recipe=dapo"])
