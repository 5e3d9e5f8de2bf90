"""The rank in exact arithmetic, the regimes and the query weights, against direct transcriptions."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.quantile import interval, is_hard, level, mean_weight, quantile_weights, rank


def baseline_by_definition(rewards: list[Fraction | int], K: Fraction) -> Fraction | int:
    """inf{x : F(x) >= K} read off the empirical distribution, one candidate after the other."""
    for x in sorted(set(rewards)):
        if Fraction(sum(r <= x for r in rewards), len(rewards)) >= K:
            return x
    raise AssertionError("F reaches 1")


def test_the_rank_is_exact_where_binary_floating_point_is_off_by_one():
    assert math.ceil(0.14 * 50) == 8  # the trap
    assert rank(0.14, 50) == 7
    assert math.ceil(0.28 * 25) == 8
    assert rank(0.28, 25) == 7


@pytest.mark.parametrize("K", [0.4, "0.4", "0.40", Decimal("0.4"), Fraction(2, 5), np.float64(0.4), np.float32(0.4)])
def test_every_way_to_write_a_level_is_the_same_level(K):
    assert level(K) == Fraction(2, 5)
    assert rank(K, 16) == 7


def test_the_rank_of_every_hundredth_and_group_is_the_ceiling_in_integers():
    for hundredths in range(1, 100):
        for size in range(1, 65):
            assert rank(hundredths / 100, size) == -(-hundredths * size // 100)


@given(st.integers(2, 64), st.decimals("0.001", "0.999", places=3))
def test_a_level_lies_in_the_interval_of_its_rank_and_its_ends_behave(size, K):
    low, high = interval(rank(K, size), size)
    assert low < Fraction(K) <= high
    assert high - low == Fraction(1, size)
    if high < 1:
        assert rank(high, size) == rank(K, size)
        assert rank(high + Fraction(1, 10**9), size) == rank(K, size) + 1
    if low > 0:
        assert rank(low, size) == rank(K, size) - 1


@pytest.mark.parametrize("size", range(1, 65))
def test_hard_means_the_quantile_is_a_failure_on_and_between_all_rank_boundaries(size):
    levels = [Fraction(i, 2 * size) for i in range(1, 2 * size)]
    for K in levels:
        for successes in range(size + 1):
            rewards = [0] * (size - successes) + [1] * successes
            hard = is_hard(successes, size, K)
            assert hard == (baseline_by_definition(rewards, K) == 0)
            assert hard == (Fraction(successes, size) <= 1 - K)


def test_the_gate_is_not_the_one_of_the_mirrored_level():
    assert is_hard(8, 16, 0.4)  # p = 0.5 <= 1 - K = 0.6
    assert not is_hard(8, 16, 0.6)  # what quantile(rewards, 1 - K) would have made of K = 0.4


@pytest.mark.parametrize(
    "K", [0, 1, 0.0, 1.0, -0.4, 1.4, 40, "40 %", "", "nan", float("nan"), float("inf"), True, None]
)
def test_a_level_outside_the_open_interval_is_named(K):
    with pytest.raises(HarnessError, match="^K=") as error:
        level(K)
    assert "0.4" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_group_without_responses_is_named(size):
    with pytest.raises(HarnessError, match="group_size="):
        rank(0.4, size)


def test_what_no_group_can_have_is_named():
    with pytest.raises(HarnessError, match="successes=17"):
        is_hard(17, 16, 0.4)
    with pytest.raises(HarnessError, match="rank=0"):
        interval(0, 16)
    with pytest.raises(HarnessError, match="p=1.5"):
        mean_weight(1.5)
    with pytest.raises(HarnessError, match="mask=pos"):
        quantile_weights(0.5, 0.4, "pos")


@pytest.mark.parametrize("mask", ["both", "positive", "negative"])
@pytest.mark.parametrize("K", [0.2, 0.4, 0.6, 0.8])
def test_the_weights_are_the_mean_absolute_advantages_of_a_group(mask, K):
    """Prop. 4.1: the weight of a sign is its responses' share times their advantage, with population std."""
    size = 20
    for successes in range(1, size):
        p = successes / size
        std = math.sqrt(p * (1 - p))
        hard = is_hard(successes, size, K)
        up = p / std if hard or mask == "negative" else 0.0
        down = (1 - p) / std if not hard or mask == "positive" else 0.0
        assert quantile_weights(p, K, mask) == pytest.approx((up, down))
        assert mean_weight(p) == pytest.approx(std)


def test_a_decided_query_has_no_weight_even_where_the_formula_diverges():
    assert quantile_weights(1, 0.4, "negative") == (0.0, 0.0)
    assert quantile_weights(0.0, 0.4, "positive") == (0.0, 0.0)
    assert mean_weight(1) == 0.0


def test_the_module_needs_neither_numpy_nor_torch():
    code = "import sys, harness.quantile; sys.exit('numpy' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
