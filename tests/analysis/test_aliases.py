from __future__ import annotations

import pytest

from analysis.aliases import resolve


@pytest.mark.parametrize(
    ("asked", "logged", "found"),
    [
        ("actor/entropy", {"actor/entropy", "actor/entropy_loss"}, "actor/entropy"),
        ("actor/entropy", {"actor/entropy_loss"}, "actor/entropy_loss"),
        ("actor/entropy_loss", {"actor/entropy"}, "actor/entropy"),
        ("actor/entropy", {"entropy_avg"}, "entropy_avg"),
        ("val-core/arith/acc/mean@4", {"val-aux/arith/acc/mean@4"}, "val-aux/arith/acc/mean@4"),
        ("val-core/arith/acc/mean@4", {"val-core/arith/acc/mean@16"}, None),
        (
            "val-core/arith/acc/mean@*",
            {"val-aux/arith/acc/mean@4", "val-core/arith/acc/mean@16"},
            "val-core/arith/acc/mean@16",
        ),
        ("val-core/arith/acc/best@4/mean", {"val-aux/arith/acc/best@4/std"}, None),
        (
            "val-core/arith/acc/best@4/mean",
            {"val-aux/arith/acc/best@4/mean"},
            "val-aux/arith/acc/best@4/mean",
        ),
        ("val-core/openai/gsm8k/acc/mean@1", {"val/test_score/openai/gsm8k"}, "val/test_score/openai/gsm8k"),
        ("val/test_score/math", {"val-core/math/reward/mean@1"}, "val-core/math/reward/mean@1"),
        ("critic/score/mean", {"critic/score/max"}, None),
    ],
)
def test_resolve(asked, logged, found):
    assert resolve(asked, logged) == found
