"""What each response was worth, as rows: the ground truth of every number reported later.

Pure functions from a batch of responses to Arrow tables; no text is kept. Schemas are fixed, so that two runs of one
specification write the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from harness.trainer.seeds import query_name

TRAIN = pa.schema(
    [
        ("step", pa.int32()),
        ("group", pa.string()),
        ("query", pa.string()),
        ("sample", pa.int16()),
        ("reward", pa.float32()),
        ("accuracy", pa.float32()),
        ("length", pa.int32()),
        ("advantage", pa.float32()),
        ("entropy", pa.float32()),
        ("words", pa.int16()),
    ]
)
"""One row a response of a training step. length in tokens; advantage: mean over the response's tokens; entropy: of the
old policy, nats, mean over the response's tokens; words: anthropomorphic words counted in the text."""

EVALUATION = pa.schema(
    [
        ("step", pa.int32()),
        ("benchmark", pa.string()),
        ("problem", pa.string()),
        ("sample", pa.int16()),
        ("seed", pa.int64()),
        ("reward", pa.float32()),
        ("accuracy", pa.float32()),
        ("length", pa.int32()),
        ("words", pa.int16()),
        ("answer", pa.string()),
        ("scorer", pa.string()),
    ]
)
"""One row a sampled response of an evaluation. seed: of this response's sampling, null where the agent loop does not
seed; answer: as extracted by the scorer, null where it found none; scorer: "name/version"."""

TOKENS = pa.schema(
    [
        ("token", pa.int32()),
        ("text", pa.string()),
        ("count", pa.int32()),
        ("mean_entropy", pa.float32()),
        ("top20", pa.int32()),
    ]
)
"""One row a token id seen in a training step. mean_entropy: nats, of the old policy where the token was drawn; top20:
how many of its occurrences are among the step's 20 % of tokens with the highest entropy."""

TOP_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """R responses with T tokens in total, in the order of their keys. Padding rows are not among them."""

    keys: Sequence[str]
    """R keys of verl's transfer queue: "<uid>_<sample>_<turn>"."""
    sources: Sequence[str]
    """R data sources."""
    indices: Sequence[Any]
    """R indices within the data source."""
    rewards: np.ndarray
    """(R,) float64: what the estimator sees before a KL penalty."""
    scores: Sequence[Mapping[str, Any]]
    """R dictionaries of the reward function: "acc" and "pred" are read."""
    texts: Sequence[str]
    """R decoded responses; counted, never written."""
    lengths: np.ndarray
    """(R,) tokens that the policy drew; they sum to T."""
    tokens: np.ndarray
    """(T,) token ids."""
    advantages: np.ndarray | None = None
    """(T,) or absent at evaluation."""
    entropies: np.ndarray | None = None
    """(T,) nats, of the old policy, or absent at evaluation."""


def split_key(key: str) -> tuple[str, int, int]:
    """uid, sample and turn of a key of verl's transfer queue (verl/trainer/ppo/v1/replay_buffer.py)."""
    uid, sample, turn = key.rsplit("_", 2)
    return uid, int(sample), int(turn)


def word_pattern(words: Sequence[str]) -> re.Pattern[str] | None:
    """Matches any of the words as a whole word, whatever the case; None without words."""
    if not words:
        return None
    return re.compile(r"(?<!\w)(?:" + "|".join(re.escape(word) for word in words) + r")(?!\w)", re.IGNORECASE)


def train_table(responses: Responses, step: int, words: re.Pattern[str] | None) -> pa.Table:
    """Rows of the schema TRAIN, in the order of the responses."""
    if responses.advantages is None or responses.entropies is None:
        raise ValueError(f"responses of training step {step} come without advantages or entropies")
    uids, samples = _uids_and_samples(responses)
    columns = {
        "step": np.full(len(uids), step),
        "group": uids,
        "query": _queries(responses),
        "sample": samples,
        "reward": responses.rewards,
        "accuracy": _accuracies(responses),
        "length": responses.lengths,
        "advantage": token_mean(responses.advantages, responses.lengths),
        "entropy": token_mean(responses.entropies, responses.lengths),
        "words": _count(responses.texts, words),
    }
    return _table(columns, TRAIN)


def evaluation_table(
    responses: Responses,
    step: int,
    words: re.Pattern[str] | None,
    scorer: str,
    seed_of: Callable[[str, int], int] | None,
) -> pa.Table:
    """Rows of the schema EVALUATION, ordered by benchmark, problem and sample.

    Args:
        seed_of: from problem and sample to the seed that the agent loop used; None where it used none.
    """
    _, samples = _uids_and_samples(responses)
    problems = _queries(responses)
    answers = [score.get("pred") for score in responses.scores]
    seeds = [None if seed_of is None else seed_of(*pair) for pair in zip(problems, samples, strict=True)]
    columns = {
        "step": np.full(len(problems), step),
        "benchmark": list(responses.sources),
        "problem": problems,
        "sample": samples,
        "seed": seeds,
        "reward": responses.rewards,
        "accuracy": _accuracies(responses),
        "length": responses.lengths,
        "words": _count(responses.texts, words),
        "answer": [None if answer in (None, "") else str(answer) for answer in answers],
        "scorer": [scorer] * len(problems),
    }
    places = [(source, _natural(index)) for source, index in zip(responses.sources, responses.indices, strict=True)]
    order = sorted(range(len(problems)), key=lambda i: (*places[i], samples[i]))
    return _table(columns, EVALUATION).take(pa.array(order, pa.int64()))


def token_table(responses: Responses, text_of: Callable[[int], str]) -> pa.Table:
    """Rows of the schema TOKENS, ordered by token id.

    Args:
        text_of: decodes one token id.
    """
    if responses.entropies is None:
        raise ValueError("responses come without entropies")
    entropies = responses.entropies.astype(np.float64)
    ids, places = np.unique(responses.tokens, return_inverse=True)
    counts = np.bincount(places, minlength=len(ids))
    means = np.bincount(places, weights=entropies, minlength=len(ids)) / np.maximum(counts, 1)
    top = np.zeros(len(entropies), dtype=bool)
    if len(entropies):
        rank = max(1, int(np.ceil(TOP_SHARE * len(entropies))))
        top = entropies >= np.sort(entropies)[-rank]
    columns = {
        "token": ids,
        "text": [text_of(int(token)) for token in ids],
        "count": counts,
        "mean_entropy": means,
        "top20": np.bincount(places, weights=top, minlength=len(ids)).astype(np.int64),
    }
    return _table(columns, TOKENS)


def token_mean(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Mean of (T,) token values over each of R responses, float64 (R,); 0 for a response without tokens."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    sums = np.bincount(owners, weights=values.astype(np.float64), minlength=len(lengths))
    return sums / np.maximum(lengths, 1)


def _uids_and_samples(responses: Responses) -> tuple[list[str], list[int]]:
    parts = [split_key(key) for key in responses.keys]
    return [uid for uid, _, _ in parts], [sample for _, sample, _ in parts]


def _queries(responses: Responses) -> list[str]:
    return [query_name(*pair) for pair in zip(responses.sources, responses.indices, strict=True)]


def _accuracies(responses: Responses) -> np.ndarray:
    # verl itself writes "acc" where a reward function returns a bare number (its reward managers).
    return np.array([float(score.get("acc", np.nan)) for score in responses.scores], dtype=np.float64)


def _count(texts: Sequence[str], words: re.Pattern[str] | None) -> list[int]:
    most = np.iinfo(np.int16).max
    return [0 if words is None else min(most, len(words.findall(text))) for text in texts]


def _natural(index: Any) -> tuple[int, str]:
    text = str(index)
    return (int(text), "") if text.isdigit() else (0, text)


def _table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    arrays = []
    for field in schema:
        values = columns[field.name]
        if isinstance(values, np.ndarray) and pa.types.is_floating(field.type):
            values = values.astype(field.type.to_pandas_dtype())
        arrays.append(pa.array(values, type=field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
