"""Drawing tokens from logits with uniform numbers that each request brings along."""

from __future__ import annotations

import numpy as np
import torch


def uniforms(seed: int, count: int) -> torch.Tensor:
    """`count` uniform numbers in [0, 1), float64, a function of the seed alone (all its bits)."""
    return torch.from_numpy(np.random.Generator(np.random.PCG64(seed)).random(count))


def warp(logits: torch.Tensor, temperature: float, top_k: int, top_p: float) -> torch.Tensor:
    """Log-probabilities after temperature, top-k and top-p in the order of vLLM's sampler.

    Args:
        logits: (rows, vocabulary).
        temperature: above 0.
        top_k: keep the k largest; none or not positive keeps all.
        top_p: keep the smallest set of tokens whose probability reaches p; 1 keeps all.

    Returns: (rows, vocabulary), normalised; -inf for tokens left out.
    """
    logits = logits / temperature
    if top_k and 0 < top_k < logits.size(-1):
        smallest = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    if top_p < 1.0:
        ordered, places = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        drop = (ordered.cumsum(dim=-1) - ordered) >= top_p
        logits = logits.masked_fill(torch.zeros_like(drop).scatter(-1, places, drop), float("-inf"))
    return torch.log_softmax(logits, dim=-1)


def draw(log_probs: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Tokens by inverse CDF in float64: the first token whose cumulative probability exceeds the number.

    Args:
        log_probs: (rows, vocabulary), normalised; -inf is never drawn.
        numbers: (rows,) in [0, 1).

    Returns: (rows,) token ids.
    """
    cdf = log_probs.double().exp().cumsum(dim=-1)
    total = cdf[:, -1:]
    # Scaled by the total instead of normalised: rounding then moves no boundary between tokens. A product that rounds
    # up to the total belongs to the last token of non-zero probability, not to one behind it.
    tokens = torch.searchsorted(cdf, numbers.double().unsqueeze(-1) * total, right=True).squeeze(-1)
    return torch.minimum(tokens, (cdf < total).sum(dim=-1))
