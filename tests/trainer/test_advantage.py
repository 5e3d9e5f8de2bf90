"""The estimator against a slow direct transcription of its definition, and all known ways to err."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.trainer.advantage import compute_quantile_outcome_advantage, quantile_advantage, register

EPSILON = 1e-6
DOUBLE = torch.float64


def transcribed(rewards, K, mask="both", threshold=None, norm_by_std=True):
    """One group by the letter: the definition for `both`, the paper's table of eqs. 7-8 for the masks."""
    size, K = len(rewards), Fraction(str(K)) if not isinstance(K, Fraction) else K
    std = 1.0
    if norm_by_std:
        std = (torch.tensor(rewards, dtype=DOUBLE).std().item() if size > 1 else 1.0) + EPSILON
    if size == 1:
        return [rewards[0] / std]
    baseline = next(x for x in sorted(rewards) if Fraction(sum(r <= x for r in rewards), size) >= K)
    if mask == "both":
        return [(r - baseline) / std for r in rewards]
    cut = threshold if threshold is not None else max(rewards)
    failures = [r for r in rewards if r < cut]
    successes = [r for r in rewards if r >= cut]
    if not failures or not successes:
        return [0.0] * size
    hard = baseline < cut
    result = []
    for r in rewards:
        if r >= cut:
            masked = mask == "positive" and not hard
            result.append(0.0 if masked else (r - max(failures)) / std)
        else:
            masked = mask == "negative" and hard
            result.append(0.0 if masked else (r - min(successes)) / std)
    return result


def of_one_group(rewards, K, dtype=DOUBLE, **settings):
    scores = torch.tensor(rewards, dtype=dtype)
    return quantile_advantage(scores, np.zeros(len(rewards), dtype=int), K=K, **settings).tolist()


def every_count(size, low=0.0, high=1.0):
    """(scores, labels) of size + 1 groups, one for each count of successes, shuffled over the batch."""
    rewards = [[low] * (size - wins) + [high] * wins for wins in range(size + 1)]
    order = torch.randperm((size + 1) * size, generator=torch.Generator().manual_seed(size))
    labels = np.repeat([f"q{i}" for i in range(size + 1)], size).astype(object)
    return rewards, torch.tensor(rewards, dtype=DOUBLE).view(-1)[order], labels[order], order


@pytest.mark.parametrize("size", range(2, 65))
def test_every_group_count_and_level_on_and_between_the_boundaries(size):
    """All G in 2..64, every count of successes, K at every r/G and half-way between."""
    low, high = (0.0, 1.0) if size % 2 else (-1.0, 1.0)
    rewards, scores, labels, order = every_count(size, low, high)
    for step in range(1, 2 * size):
        K = Fraction(step, 2 * size)
        result = torch.empty_like(scores)
        result[order] = quantile_advantage(scores, labels, K=K)
        expected = torch.tensor([transcribed_fast(group, K) for group in rewards], dtype=DOUBLE)
        torch.testing.assert_close(result.view(size + 1, size), expected, rtol=1e-12, atol=0)


def transcribed_fast(rewards, K):
    """`transcribed` for two values, failures first: hard iff p <= 1 - K, which the next test ties to the definition."""
    size, low, high = len(rewards), rewards[0], rewards[-1]
    if low == high:
        return [0.0] * size
    wins = rewards.count(high)
    p = wins / size
    std = (high - low) * math.sqrt(p * (1 - p) * size / (size - 1)) + EPSILON
    baseline = low if wins * K.denominator <= size * (K.denominator - K.numerator) else high
    return [(low - baseline) / std] * (size - wins) + [(high - baseline) / std] * wins


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 10, 16])
def test_the_gate_is_the_definition(size):
    for K in (Fraction(step, 2 * size) for step in range(1, 2 * size)):
        for wins in range(size + 1):
            group = [0.0] * (size - wins) + [1.0] * wins
            assert transcribed_fast(group, K) == pytest.approx(transcribed(group, K), rel=1e-12)


@pytest.mark.parametrize("mask", ["positive", "negative"])
@pytest.mark.parametrize("low, high, threshold", [(0.0, 1.0, None), (-1.0, 1.0, None), (0.0, 1.0, 0.5)])
@pytest.mark.parametrize("size", [2, 3, 8, 16, 33])
def test_the_masks_follow_their_table_for_every_count(size, low, high, threshold, mask):
    rewards, scores, labels, order = every_count(size, low, high)
    for K in ("0.2", "0.4", "0.5", "0.6", "0.8"):
        result = torch.empty_like(scores)
        result[order] = quantile_advantage(scores, labels, K=float(K), mask=mask, success_threshold=threshold)
        expected = [transcribed(g, K, mask, threshold) if min(g) < max(g) else [0.0] * size for g in rewards]
        torch.testing.assert_close(result.view(size + 1, size), torch.tensor(expected, dtype=DOUBLE))


@pytest.mark.parametrize(
    "mask, hard, easy",
    [
        ("both", ({+1}, {0}), ({0}, {-1})),
        ("positive", ({+1}, {-1}), ({0}, {-1})),
        ("negative", ({+1}, {0}), ({+1}, {-1})),
    ],
)
def test_the_signs_of_the_table(mask, hard, easy):
    """(signs of successes, signs of failures) on a query with 4 of 16 and on one with 12 of 16, K = 0.4."""
    for wins, (up, down) in ((4, hard), (12, easy)):
        signs = np.sign(of_one_group([1.0] * wins + [0.0] * (16 - wins), 0.4, mask=mask))
        assert set(signs[:wins]) == up
        assert set(signs[wins:]) == down


def test_masks_keep_the_quantile_weights_and_not_the_mean_baselines():
    for wins in range(1, 16):
        group = [1.0] * wins + [0.0] * (16 - wins)
        std = torch.tensor(group).std().item() + EPSILON
        assert of_one_group(group, 0.4, mask="negative")[0] == pytest.approx(1 / std)
        assert of_one_group(group, 0.4, mask="positive")[-1] == pytest.approx(-1 / std)


rewards_ = st.one_of(
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([-1.0, 1.0, 0.5]),
    st.floats(-5, 5, allow_nan=False, width=32),
)
levels = st.one_of(
    st.decimals("0.01", "0.99", places=2).map(float),
    st.tuples(st.integers(1, 15), st.just(16)).map(lambda pair: pair[0] / pair[1]),
)


@settings(max_examples=300)
@given(
    st.lists(st.lists(rewards_, min_size=1, max_size=20), min_size=1, max_size=6),
    levels,
    st.sampled_from(["both", "positive", "negative"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_any_rewards_in_groups_of_any_size_in_any_order(groups, K, mask, norm_by_std, random):
    rows = [
        (f"uid-{g}", r, a)
        for g, group in enumerate(groups)
        for r, a in zip(group, transcribed(group, repr(K), mask, 0.5, norm_by_std), strict=True)
    ]
    random.shuffle(rows)
    result = quantile_advantage(
        torch.tensor([r for _, r, _ in rows], dtype=DOUBLE),
        np.array([uid for uid, _, _ in rows], dtype=object),
        K=K,
        mask=mask,
        norm_by_std=norm_by_std,
        success_threshold=0.5,
    )
    expected = torch.tensor([a for _, _, a in rows], dtype=DOUBLE)
    torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=200)
@given(st.lists(rewards_, min_size=2, max_size=20), levels, st.sampled_from([torch.float32, DOUBLE]))
def test_linear_is_torch_quantile_bit_for_bit(rewards, K, dtype):
    scores = torch.tensor(rewards, dtype=dtype)
    result = quantile_advantage(scores, [0] * len(rewards), K=K, interpolation="linear", norm_by_std=False)
    assert torch.equal(result, scores - torch.quantile(scores, K))


# --- the traps


def test_trap_the_level_is_K_and_not_its_mirror():
    half = [1.0] * 8 + [0.0] * 8
    assert min(of_one_group(half, 0.4)) == 0 < max(of_one_group(half, 0.4))  # p = 0.5 <= 0.6: hard
    assert min(of_one_group(half, 0.6)) < 0 == max(of_one_group(half, 0.6))


def test_trap_linear_interpolation_gives_both_signs_where_the_definition_does_not():
    half = [1.0] * 8 + [0.0] * 8
    exact = of_one_group(half, 0.5, norm_by_std=False)
    linear = of_one_group(half, 0.5, norm_by_std=False, interpolation="linear")
    assert exact == half
    assert linear == [0.5] * 8 + [-0.5] * 8
    for wins in range(17):
        group = [1.0] * wins + [0.0] * (16 - wins)
        assert of_one_group(group, 0.4) == of_one_group(group, 0.4, interpolation="linear")


@pytest.mark.parametrize("K, size, rank", [(0.14, 50, 7), (0.28, 25, 7)])
def test_trap_the_rank_is_exact(K, size, rank):
    failures_at_the_rank = [0.0] * rank + [1.0] * (size - rank)
    assert min(of_one_group(failures_at_the_rank, K)) == 0  # b_K is the last failure
    one_less = [0.0] * (rank - 1) + [1.0] * (size - rank + 1)
    assert max(of_one_group(one_less, K)) == 0  # b_K is the first success


def test_trap_the_quantile_is_the_groups_and_never_the_batchs():
    easy, hard = [1.0] * 15 + [0.0], [1.0] + [0.0] * 15
    alone = of_one_group(easy, 0.4) + of_one_group(hard, 0.4)
    together = quantile_advantage(torch.tensor(easy + hard, dtype=DOUBLE), ["a"] * 16 + ["b"] * 16, K=0.4)
    assert together.tolist() == alone
    assert min(alone[:16]) < 0 < max(alone[16:])


def test_trap_the_standard_deviation_is_the_unbiased_one_with_epsilon():
    group = [1.0, 1.0, 0.0, 0.0, 0.0]
    assert of_one_group(group, 0.4)[0] == pytest.approx(1 / (np.std(group, ddof=1) + EPSILON), rel=1e-12)
    assert of_one_group(group, 0.4, norm_by_std=False)[0] == 1.0


@pytest.mark.parametrize("mask", ["both", "positive", "negative"])
def test_trap_a_group_of_one_has_baseline_zero_and_std_one(mask):
    core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
    scores, uids = torch.tensor([[1.0], [0.0], [-1.0]]), np.array(["a", "b", "c"], dtype=object)
    verls, _ = core_algos.compute_grpo_outcome_advantage(scores.clone(), torch.ones(3, 1), uids)
    ours = quantile_advantage(scores[:, 0], uids, K=0.4, mask=mask, success_threshold=0.5)
    torch.testing.assert_close(ours, verls[:, 0])
    assert ours[0] > 0.99


def test_trap_masking_does_not_zero_everything():
    for mask in ("positive", "negative"):
        for wins in (4, 12):
            assert any(of_one_group([1.0] * wins + [0.0] * (16 - wins), 0.4, mask=mask))


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.1, 1 / 3, 1e6 + 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("interpolation", ["exact", "linear"])
def test_equal_rewards_give_exact_zeros_and_no_dust(value, dtype, interpolation):
    for size in (2, 3, 7, 16, 50):
        assert of_one_group([value] * size, 0.4, dtype, interpolation=interpolation) == [0.0] * size
    for mask in ("positive", "negative"):
        assert of_one_group([value] * 7, 0.4, dtype, mask=mask) == [0.0] * 7


# --- batches as verl makes them


def call(scores, uids, tokens=None, **node):
    """The registered function on outcome rewards at the last of three tokens; `tokens` is the mask."""
    rewards = torch.zeros(len(scores), 3)
    rewards[:, 2] = torch.tensor(scores)
    tokens = torch.ones(len(scores), 3, dtype=torch.int64) if tokens is None else tokens
    advantages, returns = compute_quantile_outcome_advantage(
        token_level_rewards=rewards,
        response_mask=tokens,
        index=np.array(uids, dtype=object),
        config={"adv_estimator": "qae", "qae": {"K": 0.4, **node}},
        reward_baselines=None,
    )
    assert torch.equal(advantages, returns)
    return advantages


def test_the_advantage_is_spread_over_the_responses_tokens_only():
    tokens = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]])
    advantages = call([1.0, 0.0, 0.0, 0.0], ["a"] * 4, tokens)
    expected = torch.zeros(4, 3)
    expected[0, :2] = 1 / (0.5 + EPSILON)
    torch.testing.assert_close(advantages, expected)


@pytest.mark.parametrize("mask", ["both", "positive", "negative"])
def test_padding_rows_touch_nothing(mask):
    """Their reward 0 would be a third value beside {-1, 1}."""
    plain = call([-1.0, 1.0, 1.0, -1.0, 1.0, 1.0], ["a"] * 3 + ["b"] * 3, mask=mask)
    tokens = torch.ones(9, 3, dtype=torch.int64)
    tokens[[1, 4, 8]] = 0
    padded = call(
        [-1.0, 0.0, 1.0, 1.0, 0.0, -1.0, 1.0, 1.0, 0.0],
        ["a", "pad1", "a", "a", "pad1", "b", "b", "b", "pad1"],
        tokens,
        mask=mask,
    )
    assert plain.any()
    assert torch.equal(padded[[0, 2, 3, 5, 6, 7]], plain)
    assert not padded[[1, 4, 8]].any()


def test_a_query_that_is_only_named_like_padding_still_learns():
    assert call([1.0, 0.0, 0.0], ["paddock"] * 3).any()


def test_a_response_without_tokens_still_counts_in_its_groups_statistics():
    """As in verl: rejection sampling empties masks, and the reward was earned all the same."""
    tokens = torch.ones(4, 3, dtype=torch.int64)
    tokens[3] = 0
    full, emptied = call([1.0, 0.0, 0.0, 0.0], ["a"] * 4), call([1.0, 0.0, 0.0, 0.0], ["a"] * 4, tokens)
    assert torch.equal(full[:3], emptied[:3])


def test_a_batch_of_padding_alone_and_an_empty_batch():
    assert not call([0.0, 0.0], ["pad1", "pad1"], torch.zeros(2, 3, dtype=torch.int64)).any()
    assert quantile_advantage(torch.zeros(0), np.array([], dtype=object), K=0.4).shape == (0,)


def test_an_overlong_penalty_needs_no_threshold_for_qae_and_a_named_one_for_the_masks():
    scores, uids = [1.0, 0.4, -1.0, -1.5, -1.0], ["a"] * 5
    assert call(scores, uids)[:, 0].tolist() == pytest.approx(transcribed(scores, 0.4), rel=1e-5)
    with pytest.raises(HarnessError, match=r"algorithm\.qae\.success_threshold"):
        call(scores, uids, mask="positive")
    one_sided = call(scores, uids, mask="negative", K=0.8, success_threshold=0.0)[:, 0]
    std = torch.tensor(scores).std().item() + EPSILON
    assert one_sided.tolist() == pytest.approx([2 / std, 1.4 / std, -1.4 / std, -1.9 / std, -1.4 / std])


def test_a_batch_whose_rewards_are_all_one_value_needs_no_threshold():
    assert not call([1.0, 1.0, 1.0], ["a", "a", "b"], mask="positive")[:2].any()


@pytest.mark.parametrize(
    "node, named",
    [
        ({"K": 1.0}, "K=1.0"),
        ({"K": None}, "algorithm.qae.K"),
        ({"mask": "pos"}, "mask=pos"),
        ({"interpolation": "lower"}, "interpolation=lower"),
        ({"interpolation": "linear", "mask": "positive"}, "interpolation=linear with mask=positive"),
        ({"norm_by_std": 1}, "norm_by_std"),
        ({"success_threshold": "high"}, "success_threshold"),
        ({"interpolate": "exact"}, "algorithm.qae.interpolate.*interpolation"),
    ],
)
def test_wrong_settings_are_named(node, named):
    with pytest.raises(HarnessError, match=named):
        call([1.0, 0.0], ["a", "a"], **node)


@pytest.mark.parametrize("config", [None, {}, {"qae": None}])
def test_missing_settings_are_named(config):
    with pytest.raises(HarnessError, match=r"algorithm\.qae\.K"):
        compute_quantile_outcome_advantage(torch.ones(2, 1), torch.ones(2, 1), np.zeros(2), config=config)


def test_the_settings_arrive_from_verls_raw_config_node():
    omegaconf = pytest.importorskip("omegaconf")
    config = omegaconf.OmegaConf.create({"qae": {"K": 0.6, "norm_by_std": False}})
    advantages, _ = compute_quantile_outcome_advantage(
        torch.tensor([[1.0], [0.0]]), torch.ones(2, 1), np.array(["a", "a"], dtype=object), config=config
    )
    assert advantages.tolist() == [[0.0], [-1.0]]


# --- types


def test_labels_of_every_kind_make_the_same_groups():
    scores = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    strings = ["x", "y", "x", "y", "x", "y"]
    integers = [7, -3, 7, -3, 7, -3]
    expected = quantile_advantage(scores, strings, K=0.4)
    assert expected.any()
    for labels in (
        np.array(strings),
        np.array(strings, dtype=object),
        np.array(integers),
        torch.tensor(integers),
    ):
        assert torch.equal(quantile_advantage(scores, labels, K=0.4), expected)


def test_the_inputs_precision_is_kept_and_half_precision_is_computed_in_single():
    scores, labels = torch.tensor([1.0, 0.0, 0.0]), [0, 0, 0]
    assert quantile_advantage(scores.double(), labels, K=0.4).dtype == torch.float64
    for low in (torch.bfloat16, torch.float16, torch.int64):
        result = quantile_advantage(scores.to(low), labels, K=0.4)
        assert torch.equal(result, quantile_advantage(scores, labels, K=0.4))
        assert result.dtype == torch.float32


def test_a_common_offset_costs_no_digits_in_single_precision():
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    shifted = quantile_advantage(rewards + 2.0**20, [0] * 4, K=0.4)
    torch.testing.assert_close(shifted, quantile_advantage(rewards, [0] * 4, K=0.4), rtol=1e-6, atol=0)


def test_the_input_is_left_alone():
    rewards, tokens = torch.tensor([[1.0], [0.0]]), torch.ones(2, 1)
    compute_quantile_outcome_advantage(rewards, tokens, np.array(["a", "a"], dtype=object), config={"qae": {"K": 0.4}})
    assert rewards.tolist() == [[1.0], [0.0]]
    assert tokens.tolist() == [[1.0], [1.0]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_result_stays_there_and_is_the_same():
    scores = torch.randn(512, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    labels = np.arange(512) // 16
    ours = quantile_advantage(scores.cuda(), labels, K=0.4)
    assert ours.is_cuda
    torch.testing.assert_close(ours.cpu(), quantile_advantage(scores, labels, K=0.4))


# --- registration


def test_registering_twice_is_once_and_a_taken_name_is_an_error(monkeypatch):
    core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
    monkeypatch.setattr(core_algos, "ADV_ESTIMATOR_REGISTRY", dict(core_algos.ADV_ESTIMATOR_REGISTRY))
    core_algos.ADV_ESTIMATOR_REGISTRY.pop("qae", None)
    register()
    register()
    assert core_algos.get_adv_estimator_fn("qae") is compute_quantile_outcome_advantage
    core_algos.ADV_ESTIMATOR_REGISTRY["qae"] = pytest.fail
    with pytest.raises(HarnessError, match="already registered"):
        register()
