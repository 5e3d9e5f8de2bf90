from __future__ import annotations

import pytest

from harness.errors import HarnessError
from harness.trainer.options import TrainerSettings

BASE = {"run_dir": "/runs/0123456789", "run_id": "0123456789"}


def test_defaults_and_lists():
    settings = TrainerSettings.read({**BASE, "words": ["wait"], "token_steps": [1, 2], "stop_file": None})
    assert (settings.words, settings.token_steps) == (("wait",), (1, 2))
    assert settings.reference_K == 0.4
    assert not settings.stop_requested()


def test_a_stop_file_asks_to_stop(tmp_path):
    settings = TrainerSettings.read({**BASE, "stop_file": str(tmp_path / "stop")})
    assert not settings.stop_requested()
    (tmp_path / "stop").touch()
    assert settings.stop_requested()


@pytest.mark.parametrize(
    "node, words",
    [
        (None, "no node `harness`"),
        ({"run_id": "1"}, "harness.run_dir is missing"),
        ({**BASE, "reference_k": 0.4}, "did you mean reference_K"),
        ({**BASE, "reference_K": 1.0}, "reference_K=1.0"),
        ({**BASE, "poll_interval": 0}, "poll_interval=0"),
        ({**BASE, "filter_rounds": 0}, "filter_rounds=0"),
    ],
)
def test_mistakes_are_named(node, words):
    with pytest.raises(HarnessError, match=words):
        TrainerSettings.read(node)
