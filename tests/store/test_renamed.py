from __future__ import annotations

import importlib.util

import pytest

from harness.store import renamed


def test_names_that_were_frozen_earlier_are_read_as_those_of_today():
    spec = {
        "id": "0123456789", "prepare": [["harness.task", "/cache", "tiny"]], "finish": ["harness.merge"],
        "trainer": "harness.trainer.main",
        "verl": {"reward": {"custom_reward_function": {"path": "pkg://harness.scoring.reward", "name": "f"}, "x": 1}},
    }  # fmt: skip
    found = renamed.current(spec)
    assert found["prepare"] == [["harness.tasks.builtin", "/cache", "tiny"]]
    assert found["finish"] == ["harness.running.merge"]
    function = found["verl"]["reward"]["custom_reward_function"]
    assert function == {"path": "pkg://harness.tasks.scoring.reward", "name": "f"}
    assert found["verl"]["reward"]["x"] == 1
    assert spec["prepare"][0][0] == "harness.task", "what was given is not changed"
    assert renamed.current(found) == found, "today's names stay"


@pytest.mark.parametrize("damage", [{"prepare": 1}, {"prepare": [[], 2]}, {"finish": {}}, {"verl": []}, {"verl": {}}])
def test_damage_is_left_for_the_reader_to_find(damage):
    assert renamed.current(damage) == damage


def test_a_moved_reward_function_is_no_new_experiment():
    assert renamed.identity("pkg://harness.tasks.scoring.reward") == "pkg://harness.scoring.reward"
    assert renamed.identity("pkg://harness.scoring.reward") == "pkg://harness.scoring.reward"
    assert renamed.identity("pkg://mine.reward") == "pkg://mine.reward"


def test_todays_names_are_modules():
    for name in [*renamed.MODULES.values(), *(path.removeprefix("pkg://") for path in renamed.REWARDS.values())]:
        assert importlib.util.find_spec(name) is not None, name
    for name in ("harness.slurm.job", "harness.slurm.after"):  # what the scripts of version 0.1 run
        assert importlib.util.find_spec(name) is not None, name
