"""Quantile Advantage Estimation as an advantage estimator of verl (arXiv 2509.22611).

A_i = (R_i - b_K) / (std(R) + epsilon) with b_K = inf{x : F(x) >= K}, the right-continuous K-quantile of the
rewards of one query's group. Everything else stays GRPO: the standard deviation has N - 1 in its denominator,
epsilon is 1e-6 and a group of one has baseline 0 and standard deviation 1 (verl/trainer/ppo/core_algos.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.errors import HarnessError
from harness.quantile import QuantileSettings, level

NAME = "qae"
"""The value of `algorithm.adv_estimator`."""

PADDING = "pad"
"""How verl's uids of synthetic rows start (verl/trainer/ppo/padding_utils.py)."""


def register() -> None:
    """Makes `algorithm.adv_estimator=qae` known to the verl of this process. Safe to call again.

    Raises: HarnessError where other code already took the name.
    """
    from verl.trainer.ppo import core_algos

    present = core_algos.ADV_ESTIMATOR_REGISTRY.get(NAME)
    if present is None:
        core_algos.register_adv_est(NAME)(compute_quantile_outcome_advantage)
    elif present.__module__ != __name__:
        raise HarnessError(
            f"algorithm.adv_estimator={NAME} is already registered by {present.__module__}: "
            "take that module out of VERL_USE_EXTERNAL_MODULES or uninstall its plugin"
        )


def compute_quantile_outcome_advantage(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: np.ndarray,
    epsilon: float = 1e-6,
    config: Mapping[str, Any] | None = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The estimator in the form that verl calls.

    Args:
        token_level_rewards: (rows, tokens); their sum over tokens is a response's reward.
        response_mask: (rows, tokens), 1 on the response's tokens.
        index: (rows,) the uid of each row's query.
        config: verl's `algorithm` node; its `qae` node holds the settings of `QuantileSettings`.

    Returns: advantages and returns, one tensor (rows, tokens), zero where the mask is.

    Raises: HarnessError for settings that are missing or wrong, and for a mask without a success threshold
        where there are three or more reward values.
    """
    settings = QuantileSettings.read((config or {}).get("qae"))
    with torch.no_grad():
        advantages = quantile_advantage(
            token_level_rewards.sum(dim=-1),
            index,
            K=settings.K,
            mask=settings.mask,
            interpolation=settings.interpolation,
            norm_by_std=settings.norm_by_std,
            success_threshold=settings.success_threshold,
            epsilon=epsilon,
            padding=_padding(index, response_mask),
        )
        advantages = advantages.unsqueeze(-1) * response_mask
    return advantages, advantages


def quantile_advantage(
    scores: torch.Tensor,
    group_index: Sequence[Any] | np.ndarray | torch.Tensor,
    *,
    K: float,
    mask: str = "both",
    interpolation: str = "exact",
    norm_by_std: bool = True,
    success_threshold: float | None = None,
    epsilon: float = 1e-6,
    padding: np.ndarray | None = None,
) -> torch.Tensor:
    """One advantage a response.

    Args:
        scores: (rows,) rewards, on any device.
        group_index: (rows,) labels; rows of equal label are one group, in any order and of any size.
        padding: (rows,) truth values on the host; rows that belong to no group and get 0.

    Returns: (rows,) on the device of `scores`, in their floating type (float32 for half precision and
        integers). Groups of equal rewards get exact zeros. Same input, same bits: no atomics are used.

    Raises: HarnessError as in `QuantileSettings` and `compute_quantile_outcome_advantage`.
    """
    QuantileSettings(
        K=K,
        mask=mask,
        interpolation=interpolation,
        norm_by_std=norm_by_std,
        success_threshold=success_threshold,
    )
    if scores.dtype not in (torch.float32, torch.float64):
        scores = scores.float()
    groups = _Groups.of(group_index, padding, scores.device)
    if groups.cells.numel() == 0:
        return torch.zeros_like(scores)

    kept = scores if groups.rows is None else scores[groups.rows]
    rewards = kept.new_full(groups.shape, math.inf)  # beyond a group's size, where sorting leaves it
    rewards.view(-1).scatter_(0, groups.cells, kept)
    ranks, highest = groups.ranks(K)
    # The smallest few in order: all that the ranks ask for, at a fraction of a full sort.
    baseline = rewards.topk(highest, dim=1, largest=False, sorted=True).values.gather(1, ranks - 1)
    std = groups.std(rewards, baseline)

    if mask != "both":
        success = _successes(rewards, groups.valid, kept, success_threshold)
        differences = _one_sided(rewards, success, groups.valid, ranks, mask)
    elif interpolation == "linear":
        differences = rewards - _interpolated(rewards.sort(dim=1).values, groups.sizes, float(K))
    else:
        differences = rewards - baseline
    advantages = differences / (std + epsilon) if norm_by_std else differences
    single = rewards / (1 + epsilon) if norm_by_std else rewards
    advantages = torch.where(groups.sizes == 1, single, advantages)

    cells = advantages.view(-1).gather(0, groups.cells)
    if groups.rows is None:
        return cells
    result = torch.zeros_like(scores)
    result[groups.rows] = cells
    return result


@dataclass(frozen=True, slots=True)
class _Groups:
    """Where each row lies in a (groups, largest group) matrix; made on the host, where the labels are."""

    shape: tuple[int, int]
    rows: torch.Tensor | None
    """(kept rows,) their places in the batch; None where every row is kept."""
    cells: torch.Tensor
    """(kept rows,) flat places in the matrix, no two alike."""
    sizes: torch.Tensor
    """(groups, 1) responses a group."""
    valid: torch.Tensor
    """(groups, largest group) whether a cell holds a response."""
    counts: np.ndarray
    """(groups,) the sizes on the host."""

    @classmethod
    def of(cls, index: Any, padding: np.ndarray | None, device: torch.device) -> _Groups:
        labels = index.cpu().numpy() if isinstance(index, torch.Tensor) else np.asarray(index)
        rows = None
        if padding is not None and padding.any():
            rows = np.flatnonzero(~padding)
            labels = labels[rows]
        codes = _codes(labels)
        counts = np.bincount(codes)
        width = int(counts.max(initial=0))
        narrow = codes.astype(np.uint16) if len(counts) <= 2**16 else codes  # numpy sorts these by radix
        order = np.argsort(narrow, kind="stable")
        starts = np.cumsum(counts) - counts
        cells = np.empty_like(codes)
        cells[order] = np.arange(len(codes)) + np.repeat(np.arange(len(counts)) * width - starts, counts)

        def send(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(device, non_blocking=True)

        sizes = send(counts[:, None])
        return cls(
            shape=(len(counts), width),
            rows=None if rows is None else send(rows),
            cells=send(cells),
            sizes=sizes,
            valid=torch.arange(width, device=device) < sizes,
            counts=counts,
        )

    def ranks(self, K: float) -> tuple[torch.Tensor, int]:
        """(groups, 1) ceil(K * size), exact, and the highest of them; computed once a distinct size."""
        exact = level(K)
        sizes, inverse = np.unique(self.counts, return_inverse=True)
        table = np.array([math.ceil(exact * int(size)) for size in sizes], dtype=np.int64)
        ranks = torch.from_numpy(table[inverse][:, None]).to(self.sizes.device, non_blocking=True)
        return ranks, int(table.max())

    def std(self, rewards: torch.Tensor, origin: torch.Tensor) -> torch.Tensor:
        """(groups, 1) standard deviation with size - 1, measured from a reward of the group.

        Equal rewards then give exactly 0, and an offset common to a group costs no digits.
        """
        centred = torch.where(self.valid, rewards - origin, 0.0)
        mean = centred.sum(dim=1, keepdim=True) / self.sizes
        squares = torch.where(self.valid, (centred - mean).square(), 0.0).sum(dim=1, keepdim=True)
        return (squares / (self.sizes - 1).clamp_min(1)).sqrt()


def _codes(labels: np.ndarray) -> np.ndarray:
    """Labels as consecutive integers, without sorting: a dictionary is several times faster on strings."""
    if labels.dtype.kind in "iu" and labels.size and labels.min() >= 0 and labels.max() < 2 * labels.size:
        return (np.cumsum(np.bincount(labels) > 0) - 1)[labels]
    seen: dict[Any, int] = {}
    listed = labels.tolist()
    return np.fromiter((seen.setdefault(label, len(seen)) for label in listed), np.int64, len(listed))


def _padding(index: Any, response_mask: torch.Tensor) -> np.ndarray | None:
    """(rows,) verl's synthetic rows: a uid that says so and no token. None without such uids, at no sync."""
    labels = np.asarray(index) if not isinstance(index, torch.Tensor) else None
    if labels is None or labels.dtype.kind in "iubf":
        return None
    named = [isinstance(uid, str) and uid.startswith(PADDING) for uid in labels.tolist()]
    if not any(named):
        return None
    return np.array(named) & ~response_mask.bool().any(dim=-1).cpu().numpy()


def _interpolated(ranked: torch.Tensor, sizes: torch.Tensor, K: float) -> torch.Tensor:
    """(groups, 1) `torch.quantile(rewards, K)` bit for bit: linear at position K * (size - 1)."""
    position = torch.as_tensor(K, dtype=ranked.dtype, device=ranked.device) * (sizes - 1)
    below = position.floor().long()
    above = position.ceil().long()
    return torch.lerp(ranked.gather(1, below), ranked.gather(1, above), position - below)


def _successes(rewards: torch.Tensor, valid: torch.Tensor, kept: torch.Tensor, threshold: float | None) -> torch.Tensor:
    """(groups, largest group) the successes: reward >= threshold, or else the larger of two values."""
    if threshold is not None:
        return (rewards >= threshold) & valid
    low, high = kept.aminmax()
    if ((kept != low) & (kept != high)).any():
        raise HarnessError(
            "algorithm.qae.success_threshold is not set, but the rewards have more than two values: a mask "
            "needs the reward from which a response is a success, e.g. +algorithm.qae.success_threshold=0.5"
        )
    return (rewards > low) & valid


def _one_sided(
    rewards: torch.Tensor, success: torch.Tensor, valid: torch.Tensor, ranks: torch.Tensor, mask: str
) -> torch.Tensor:
    """(groups, largest group) reward differences under POS-MASK or NEG-MASK (eqs. 7-8).

    Successes are measured against the group's largest failure and failures against its smallest success. Both
    sides are chosen before anything is zeroed: masking twice in a row would zero everything.
    """
    failure = valid & ~success
    hard = failure.sum(dim=1, keepdim=True) >= ranks  # then the rank-th smallest reward is a failure
    largest_failure = rewards.masked_fill(~failure, -math.inf).amax(dim=1, keepdim=True)
    smallest_success = rewards.masked_fill(~success, math.inf).amin(dim=1, keepdim=True)
    mixed = torch.isfinite(largest_failure) & torch.isfinite(smallest_success)
    up = success & mixed & (hard if mask == "positive" else True)
    down = failure & mixed & (~hard if mask == "negative" else True)
    reference = torch.where(success, largest_failure, smallest_success)
    return torch.where(up | down, rewards - reference, 0.0)
