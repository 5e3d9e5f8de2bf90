"""From verl's transfer queue to `outcomes.Responses`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta

from harness.trainer.outcomes import Responses, split_key

FIELDS = ("index", "data_source", "rm_scores", "responses", "response_mask", "extra_fields")
TRAIN_FIELDS = ("advantages", "entropy")


def read_responses(batch: KVBatchMeta, tokenizer: Any, train: bool) -> Responses:
    """The real rows of a batch, in the order of their keys; padding rows are left out.

    Args:
        batch: keys, tags and partition.
        tokenizer: decodes the responses, whose words are counted.
        train: whether advantages and entropies have been computed.
    """
    real = [i for i, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
    keys = sorted((batch.keys[i] for i in real), key=split_key)
    fields = [*FIELDS, *(TRAIN_FIELDS if train else ())]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
    drawn, counts = _flat(data["response_mask"])
    mask = drawn.bool()
    tokens = _flat(data["responses"])[0][mask]
    owners = torch.repeat_interleave(torch.arange(len(counts)), counts)
    lengths = torch.bincount(owners[mask], minlength=len(counts))
    scores, score_counts = _flat(data["rm_scores"])
    rewards = torch.zeros(len(counts), dtype=torch.float64)
    rewards.index_add_(0, torch.repeat_interleave(torch.arange(len(counts)), score_counts), scores.double())
    return Responses(
        keys=keys,
        sources=[str(value) for value in _plain(data["data_source"])],
        indices=list(_plain(data["index"])),
        rewards=rewards.numpy(),
        scores=[(value or {}).get("reward_extra_info", {}) for value in _plain(data["extra_fields"])],
        texts=_decode(tokenizer, tokens.split(lengths.tolist())),
        lengths=lengths.numpy(),
        tokens=tokens.numpy(),
        advantages=_masked(data, "advantages", mask) if train else None,
        entropies=_masked(data, "entropy", mask) if train else None,
    )


def _decode(tokenizer: Any, parts: Iterable[torch.Tensor]) -> list[str]:
    return tokenizer.batch_decode([part.tolist() for part in parts], skip_special_tokens=True)


def _flat(field: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and row lengths of a jagged field; a field whose rows are equally long may come as a plain matrix."""
    if field.is_nested:
        return field.values(), field.offsets().diff()
    return field.reshape(-1), torch.full((field.size(0),), field.size(1))


def _masked(data: Any, name: str, mask: torch.Tensor) -> np.ndarray:
    return _flat(data[name])[0][mask].float().numpy()


def _plain(values: Iterable[Any]) -> list[Any]:
    """Python values of a non-tensor field, whose elements may be wrapped."""
    result = []
    for value in values:
        value = getattr(value, "data", value) if not isinstance(value, torch.Tensor | np.ndarray) else value
        result.append(value.item() if hasattr(value, "item") else value)
    return result
