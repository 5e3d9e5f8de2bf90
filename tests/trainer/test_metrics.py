from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.quantile import is_hard
from harness.trainer import metrics, outcomes


def rows(groups: list[list[int]], advantages=None, lengths=None, entropies=None) -> pa.Table:
    """Training rows of groups of accuracies; rewards equal accuracies unless told."""
    accuracy = [value for group in groups for value in group]
    count = len(accuracy)
    names = [f"s000001p{i:05d}" for i, group in enumerate(groups) for _ in group]
    columns = {
        "step": [1] * count, "group": names, "query": names, "sample": list(range(count)), "reward": accuracy,
        "accuracy": accuracy, "length": lengths or [1] * count, "advantage": advantages or [0.0] * count,
        "entropy": entropies or [1.0] * count, "words": [2] * count,
    }  # fmt: skip
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in outcomes.TRAIN}, outcomes.TRAIN)


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=20), min_size=1, max_size=6),
    st.sampled_from([0.14, 0.2, 0.28, 0.4, 0.5, 0.6, 0.8]),
)
def test_group_shares_follow_the_definition(groups, K):
    result = metrics.train_metrics(rows(groups), K)
    hard = [is_hard(sum(group), len(group), K) for group in groups]
    assert result["group/hard_share"] == pytest.approx(np.mean(hard))
    assert result["group/hard_share"] + result["group/easy_share"] == pytest.approx(1.0)
    assert result["group/all_equal_share"] == pytest.approx(np.mean([len(set(group)) == 1 for group in groups]))
    everything = [value for group in groups for value in group]
    assert result["group/success_rate"] == pytest.approx(np.mean(everything))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from([-1.5, 0.0, 0.25]), st.integers(0, 9), st.floats(0, 5)), min_size=1, max_size=30)
)
def test_advantage_shares_sum_to_one_and_entropies_are_token_means(values):
    advantages, lengths, entropies = (list(column) for column in zip(*values, strict=True))
    result = metrics.train_metrics(rows([[0] * len(values)], advantages, lengths, entropies), 0.4)
    shares = [result[f"advantage/{sign}_share"] for sign in ("zero", "positive", "negative")]
    assert sum(shares) == pytest.approx(1.0)
    signs = {"all": lambda a: True, "zero": lambda a: a == 0, "positive": lambda a: a > 0, "negative": lambda a: a < 0}
    for name, matches in signs.items():
        chosen = [(n, float(np.float32(e))) for a, n, e in values if matches(a)]
        tokens = sum(n for n, _ in chosen)
        if tokens:
            assert result[f"entropy/{name}"] == pytest.approx(sum(n * e for n, e in chosen) / tokens)
        else:
            assert f"entropy/{name}" not in result


def test_lengths_words_and_discarded_groups():
    result = metrics.train_metrics(rows([[1, 0], [0, 0]], lengths=[1, 2, 3, 6]), 0.4, discarded=5)
    assert (result["response/length_mean"], result["response/words_mean"], result["group/discarded"]) == (3.0, 2.0, 5.0)


def slow_pass_at(k: int, samples: int, correct: int) -> float:
    """Brute force: the share of k-subsets with at least one right answer."""
    answers = [True] * correct + [False] * (samples - correct)
    subsets = list(itertools.combinations(answers, k))
    return sum(any(subset) for subset in subsets) / len(subsets)


def test_pass_at_k_is_the_share_of_subsets_with_a_right_answer():
    for samples in range(1, 8):
        for correct in range(samples + 1):
            for k in range(1, samples + 1):
                assert metrics.pass_at(k, samples, correct) == pytest.approx(slow_pass_at(k, samples, correct))
    assert metrics.pass_at(16, 32, 2) == pytest.approx(1 - math.comb(30, 16) / math.comb(32, 16))


def evaluation(benchmarks: dict[str, list[list[int]]]) -> pa.Table:
    """Evaluation rows of problems given as lists of accuracies."""
    columns: dict[str, list] = {field.name: [] for field in outcomes.EVALUATION}
    for name, problems in benchmarks.items():
        for i, problem in enumerate(problems):
            for sample, accuracy in enumerate(problem):
                row = {
                    "step": 0, "benchmark": name, "problem": f"{name}/{i}", "sample": sample, "seed": None,
                    "reward": accuracy, "accuracy": accuracy, "length": 4, "words": 0, "answer": None, "scorer": "s/1",
                }  # fmt: skip
                for key, value in row.items():
                    columns[key].append(value)
    arrays = {field.name: pa.array(columns[field.name], field.type) for field in outcomes.EVALUATION}
    return pa.table(arrays, outcomes.EVALUATION)


def test_evaluation_metrics_are_means_of_problems_then_of_benchmarks():
    one = [[1] * 4 + [0] * 12, [0] * 16]
    two = [[1] + [0] * 19]
    result = metrics.evaluation_metrics(evaluation({"easy": one, "hard": two}))
    assert result["eval/easy/pass@1"] == pytest.approx((4 / 16 + 0) / 2)
    assert result["eval/easy/pass@16"] == pytest.approx(0.5)
    assert result["eval/hard/pass@16"] == pytest.approx(1 - math.comb(19, 16) / math.comb(20, 16))
    assert result["eval/pass@1"] == pytest.approx((result["eval/easy/pass@1"] + result["eval/hard/pass@1"]) / 2)
    assert result["eval/hard/length_mean"] == 4.0


def test_a_k_above_the_samples_is_left_out():
    result = metrics.evaluation_metrics(evaluation({"easy": [[1, 0]] * 3, "hard": [[1] * 16]}))
    assert "eval/easy/pass@16" not in result
    assert "eval/pass@16" not in result
    assert result["eval/hard/pass@16"] == 1.0


def test_discarded_groups_counts_both_of_verls_names():
    names = {"training/filter_groups/evicted_samples": 3.0, "training/filter_groups/discarded_surplus_samples": 2}
    assert metrics.discarded_groups({**names, "other": 9}) == 5
    assert metrics.discarded_groups({}) == 0


def test_the_run_says_which_pass_at_k_are_logged():
    result = metrics.evaluation_metrics(evaluation({"easy": [[1, 0, 0, 0]]}), ks=(2, 4, 8))
    assert result["eval/pass@2"] == pytest.approx(0.5)
    assert result["eval/pass@4"] == 1.0
    assert not {"eval/pass@1", "eval/pass@8"} & result.keys()
