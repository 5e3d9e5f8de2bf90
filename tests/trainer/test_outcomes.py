from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from harness.trainer import outcomes
from harness.trainer.outcomes import Responses


def make(**changes) -> Responses:
    values = {
        "keys": ["s000002p00001_0_0", "s000002p00000_1_0", "s000002p00000_0_0"],
        "sources": ["sums", "sums", "sums"],
        "indices": [4, 10, 10],
        "rewards": np.array([1.0, 0.0, -0.5]),
        "scores": [{"acc": 1.0, "pred": "7"}, {"acc": 0.0, "pred": ""}, {}],
        "texts": ["wait, wait", "a WAIT b", "waiting"],
        "lengths": np.array([2, 3, 1]),
        "tokens": np.array([5, 6, 5, 5, 7, 9]),
        "advantages": np.array([1.5, 1.5, 0.0, 0.0, 0.0, -1.0]),
        "entropies": np.array([1.0, 3.0, 0.5, 0.25, 0.75, 2.0]),
    }
    return Responses(**{**values, **changes})


def test_train_rows():
    table = outcomes.train_table(make(), 2, outcomes.word_pattern(["wait"]))
    assert table.schema == outcomes.TRAIN
    rows = table.to_pylist()
    assert [row["group"] for row in rows] == ["s000002p00001", "s000002p00000", "s000002p00000"]
    assert [row["query"] for row in rows] == ["sums/4", "sums/10", "sums/10"]
    assert [row["sample"] for row in rows] == [0, 1, 0]
    assert [row["advantage"] for row in rows] == [1.5, 0.0, -1.0]
    assert [row["entropy"] for row in rows] == [2.0, 0.5, 2.0]
    assert [row["words"] for row in rows] == [2, 1, 0]
    assert [row["reward"] for row in rows] == [1.0, 0.0, -0.5]
    assert rows[0]["accuracy"] == 1.0
    assert np.isnan(rows[2]["accuracy"])


def test_evaluation_rows_are_ordered_and_carry_their_seed():
    responses = make(keys=["u-1_1_0", "u-2_0_0", "u-1_0_0"], indices=[10, 9, 10], advantages=None, entropies=None)
    table = outcomes.evaluation_table(responses, 5, None, "halves/1", lambda name, sample: len(name) * 10 + sample)
    assert table.schema == outcomes.EVALUATION
    rows = table.to_pylist()
    assert [(row["problem"], row["sample"]) for row in rows] == [("sums/9", 0), ("sums/10", 0), ("sums/10", 1)]
    assert [row["seed"] for row in rows] == [60, 70, 71]
    assert [row["answer"] for row in rows] == [None, None, "7"]
    assert {row["scorer"] for row in rows} == {"halves/1"}
    unseeded = outcomes.evaluation_table(responses, 5, None, "halves/1", None)
    assert unseeded.column("seed").null_count == 3


def test_token_rows_count_the_top_fifth():
    table = outcomes.token_table(make(), lambda token: f"<{token}>")
    assert table.schema == outcomes.TOKENS
    assert table.to_pylist() == [
        {"token": 5, "text": "<5>", "count": 3, "mean_entropy": pytest.approx((1.0 + 0.5 + 0.25) / 3), "top20": 0},
        {"token": 6, "text": "<6>", "count": 1, "mean_entropy": 3.0, "top20": 1},
        {"token": 7, "text": "<7>", "count": 1, "mean_entropy": 0.75, "top20": 0},
        {"token": 9, "text": "<9>", "count": 1, "mean_entropy": 2.0, "top20": 1},
    ]


def test_a_training_table_needs_advantages():
    with pytest.raises(ValueError, match="without advantages"):
        outcomes.train_table(make(advantages=None), 2, None)


def test_responses_without_tokens_are_zeros():
    responses = make(lengths=np.array([0, 3, 3]))
    table = outcomes.train_table(responses, 1, None)
    assert table.column("advantage").to_pylist()[0] == 0.0
    assert table.column("words").to_pylist() == [0, 0, 0]


@pytest.mark.parametrize("key, parts", [("s000001p00002_3_0", ("s000001p00002", 3, 0)), ("a_b_1_2", ("a_b", 1, 2))])
def test_split_key(key, parts):
    assert outcomes.split_key(key) == parts


def test_words_match_whole_words_only():
    pattern = outcomes.word_pattern(["let me", "hmm"])
    assert len(pattern.findall("Let me see. outlet me? Hmm, hmmm hmm!")) == 3
    assert outcomes.word_pattern([]) is None


def test_schemas_hold_plain_types_only():
    for schema in (outcomes.TRAIN, outcomes.EVALUATION, outcomes.TOKENS):
        assert not any(pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type) for field in schema)
