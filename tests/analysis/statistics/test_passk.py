"""pass@k against enumeration, scipy and exact binomials; majority vote; refusals."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from analysis.statistics.passk import pass_at_k
from harness.errors import HarnessError
from tests.support.shared import SHARED, needs


def test_equals_enumeration_of_every_subset():
    for n in range(1, 8):
        for c in range(n + 1):
            right = [True] * c + [False] * (n - c)
            for k in range(1, n + 1):
                subsets = list(combinations(range(n), k))
                hit = sum(any(right[i] for i in subset) for subset in subsets) / len(subsets)
                assert pass_at_k(n, c, k) == pytest.approx(hit, abs=1e-12)


def test_equals_scipy_and_exact_integers_where_binomials_overflow():
    for n, c, k in ((32, 5, 16), (1000, 3, 500), (2000, 1, 1999), (4096, 40, 64)):
        exact = 1 - math.comb(n - c, k) / math.comb(n, k)
        assert pass_at_k(n, c, k) == pytest.approx(exact, abs=1e-12)
        assert pass_at_k(n, c, k) == pytest.approx(hypergeom(n, c, k).sf(0), abs=1e-9)


@given(st.integers(1, 64), st.data())
def test_bounds_and_monotony(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    value = float(pass_at_k(n, c, k))
    assert 0 <= value <= 1
    assert value == pytest.approx(float(1 - Fraction(math.comb(n - c, k), math.comb(n, k))), abs=1e-14)
    if n - c < k:  # the other way round it may be rounded to 1: 1 - 1 / C(58, 32)
        assert value == 1.0
    assert (value == 0.0) == (c == 0)
    if k < n:
        assert float(pass_at_k(n, c, k + 1)) >= value - 1e-12


def test_is_unbiased_where_best_of_first_k_is_only_noisy():
    rng = np.random.default_rng(0)
    p, n, k = 0.2, 16, 4
    correct = rng.binomial(n, p, 40_000)
    assert pass_at_k(n, correct, k).mean() == pytest.approx(1 - (1 - p) ** k, abs=0.005)


def test_samples_may_differ_by_problem():
    assert pass_at_k([4, 8], [1, 1], 2) == pytest.approx([0.5, 0.25])


@pytest.mark.parametrize(
    ("n", "c", "k", "said"),
    [
        (8, 3, 16, "pass@16 from 8 samples"),
        ([16, 8], [1, 1], 16, "samples=16"),
        (8, 3, 0, "at least 1"),
        (8, 9, 2, "0 to n"),
    ],
)
def test_refuses(n, c, k, said):
    with pytest.raises(HarnessError, match=said):
        pass_at_k(n, c, k)


@needs("logs/openai_gsm8k")
def test_gsm8k_outcomes_of_four_systems():
    path = SHARED / "logs/openai_gsm8k/example_model_solutions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    expected = {"6b_finetuning": 0.217, "6b_verification": 0.390, "175b_finetuning": 0.347, "175b_verification": 0.563}
    for system, accuracy in expected.items():
        right = np.array([row[system]["is_correct"] for row in rows], dtype=int)
        assert len(right) == 1319
        assert pass_at_k(1, right, 1).mean() == pytest.approx(accuracy, abs=0.0005)
