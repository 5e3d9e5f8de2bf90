from __future__ import annotations

import pytest

from harness.config.compose import compose
from harness.config.settings import Baseline, Evaluation, Recipe
from harness.config.typed import construct, to_plain
from harness.errors import HarnessError


def test_a_baseline_says_what_it_is():
    assert Baseline(name="qae", K=0.4).label == "QAE K=0.4"
    assert Baseline(name="qae", K=0.25, mask="positive").label == "QAE POS-MASK K=0.25"
    assert Baseline(name="qae", K=0.25, interpolation="linear").label == "QAE linear K=0.25"
    assert Baseline(name="mean").label == "mean (GRPO)"


def test_the_rank_decides_only_an_exact_quantile():
    assert Baseline(name="qae", K=0.4).rank(16) == 7
    assert Baseline(name="qae", K=0.4, interpolation="linear").rank(16) is None
    assert Baseline(name="mean").rank(16) is None


@pytest.mark.parametrize("K", [0.0, 1.0, -0.1, 1.5])
def test_K_lies_strictly_between_0_and_1(K):
    with pytest.raises(HarnessError, match=rf"baseline\.K={K}: .*strictly between 0 and 1"):
        Baseline(name="qae", K=K)


def test_K_belongs_to_qae_alone():
    with pytest.raises(HarnessError, match="baseline mean has no K"):
        Baseline(name="mean", K=0.4)
    with pytest.raises(HarnessError, match="needs a K"):
        Baseline(name="qae")


def test_the_estimators_own_rules_hold_before_anything_is_queued():
    with pytest.raises(HarnessError, match="interpolation=linear with mask=positive: .* use interpolation=exact"):
        Baseline(name="qae", K=0.4, mask="positive", interpolation="linear")


def test_a_misspelt_mask_names_the_nearest():
    with pytest.raises(HarnessError, match=r"baseline\.mask=positiv: did you mean positive"):
        Baseline(name="qae", K=0.4, mask="positiv")


def test_a_group_has_two_responses_and_batches_divide():
    with pytest.raises(HarnessError, match=r"recipe\.group_size=1"):
        Recipe(name="r", group_size=1, prompts_per_step=8, mini_batch=8, learning_rate=1e-3)
    with pytest.raises(HarnessError, match=r"recipe\.mini_batch=3: must divide recipe\.prompts_per_step=8"):
        Recipe(name="r", group_size=4, prompts_per_step=8, mini_batch=3, learning_rate=1e-3)


def test_pass_at_k_needs_k_samples():
    with pytest.raises(HarnessError, match=r"pass@16 needs at least 16 samples .* evaluation\.samples=16 \(now 8\)"):
        Evaluation(name="e", samples=8, temperature=1.0, every=5, builtin="arithmetic")


def test_construct_names_the_dotted_key():
    with pytest.raises(HarnessError, match=r"baseline\.maks: no such setting; did you mean baseline\.mask"):
        construct(Baseline, {"name": "qae", "maks": "both"}, "baseline")
    with pytest.raises(HarnessError, match=r"baseline\.K='big': expected a number"):
        construct(Baseline, {"name": "qae", "K": "big"}, "baseline")
    with pytest.raises(HarnessError, match=r"baseline\.norm_by_std=1: expected true or false"):
        construct(Baseline, {"name": "qae", "K": 0.4, "norm_by_std": 1}, "baseline")
    with pytest.raises(HarnessError, match=r"baseline\.K=nan: expected a finite number"):
        construct(Baseline, {"name": "qae", "K": float("nan")}, "baseline")
    with pytest.raises(HarnessError, match=r"recipe\.name: missing"):
        construct(Recipe, {}, "recipe")


def test_plain_values_come_back():
    values = {"name": "e", "samples": 16, "temperature": 1, "every": 5, "k": [1, 16], "files": ["a.parquet"]}
    evaluation = construct(Evaluation, values)
    assert evaluation.temperature == 1.0
    assert evaluation.k == (1, 16)
    assert to_plain(evaluation)["files"] == ["a.parquet"]


def test_built_in_data_is_not_mixed_with_another_evaluation():
    with pytest.raises(HarnessError, match=r"evaluation=aime24: data=arithmetic is built in .* evaluation=arithmetic"):
        compose(["evaluation=aime24"])
