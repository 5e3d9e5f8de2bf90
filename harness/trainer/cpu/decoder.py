"""Batched decoding with a Hugging Face causal language model on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.errors import HarnessError
from harness.trainer.cpu.sampling import draw, uniforms, warp

KNOWN = frozenset({"temperature", "top_p", "top_k", "repetition_penalty", "logprobs", "seed", "max_tokens"})


@dataclass(frozen=True, slots=True)
class Style:
    """How tokens are drawn; requests of one style can share a batch."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1


@dataclass(frozen=True, slots=True)
class Request:
    """One response to make."""

    prompt: tuple[int, ...]
    """Token ids."""
    limit: int
    """Most tokens of the response, at least 1."""
    seed: int
    """Of this response's uniform numbers."""
    style: Style = Style()
    """See Style."""

    @classmethod
    def read(cls, prompt: Sequence[int], parameters: Mapping[str, Any], limit: int, seed: int) -> Request:
        """A request from verl's sampling parameters (verl/trainer/ppo/v1/agent_loop_tq.py).

        Args:
            limit: used where the parameters have no max_tokens.
            seed: used where the parameters have none.

        Raises: HarnessError for parameters that this server would silently ignore.
        """
        unknown = sorted(set(parameters) - KNOWN)
        if unknown or parameters.get("repetition_penalty", 1.0) != 1.0:
            name = unknown[0] if unknown else "repetition_penalty"
            raise HarnessError(
                f"sampling parameter {name}={parameters[name]!r} is not supported by the CPU rollout server: "
                f"use {', '.join(sorted(KNOWN - {'repetition_penalty'}))}"
            )
        if not prompt:
            raise HarnessError("an empty prompt cannot be decoded: give the model a start token or a chat template")
        style = Style(
            temperature=float(parameters.get("temperature", 1.0)),
            top_p=float(parameters.get("top_p", 1.0)),
            top_k=int(parameters.get("top_k", -1)),
        )
        given = parameters.get("seed")
        return cls(
            prompt=tuple(int(token) for token in prompt),
            limit=max(1, int(parameters.get("max_tokens") or limit)),
            seed=int(seed if given is None else given),
            style=style,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to a request."""

    tokens: list[int]
    """Token ids, with the end token where one was drawn."""
    log_probs: list[float]
    """Of each token under the distribution that it was drawn from (verl: logprobs_mode=processed_logprobs)."""


class Decoder:
    """A model and its decoding loop."""

    def __init__(self, model: Any, end: frozenset[int], pad: int, max_batch: int = 256) -> None:
        """Args:
        model: a transformers causal language model in evaluation mode.
        end: token ids that end a response; empty decodes up to the limit.
        pad: token id for the left padding; never seen by a response.
        max_batch: most requests decoded together.
        """
        self.model = model
        self.end = end
        self.pad = pad
        self.max_batch = max_batch

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Completions in the order of the requests.

        Requests are put into an order of their own before they are cut into batches, so that a batch does not depend
        on the order in which requests arrived.
        """
        order = sorted(range(len(requests)), key=lambda i: _place(requests[i]))
        done: dict[int, Completion] = {}
        batch: list[int] = []
        for place, i in enumerate(order):
            batch.append(i)
            last = place + 1 == len(order)
            if last or len(batch) == self.max_batch or requests[order[place + 1]].style != requests[i].style:
                done.update(zip(batch, self._batch([requests[j] for j in batch]), strict=True))
                batch = []
        return [done[i] for i in range(len(requests))]

    @torch.inference_mode()
    def _batch(self, requests: Sequence[Request]) -> list[Completion]:
        rows, width = len(requests), max(len(request.prompt) for request in requests)
        limits = torch.tensor([request.limit for request in requests])
        steps = int(limits.max())
        ids = torch.full((rows, width), self.pad)
        mask = torch.zeros((rows, width + steps), dtype=torch.long)
        for row, request in enumerate(requests):
            start = width - len(request.prompt)
            ids[row, start:] = torch.tensor(request.prompt)
            mask[row, start:] = 1
        numbers = torch.stack([uniforms(request.seed, steps) for request in requests])
        positions = (mask[:, :width].cumsum(dim=-1) - 1).clamp(min=0)
        lengths = torch.zeros(rows, dtype=torch.long)
        active = torch.ones(rows, dtype=torch.bool)
        tokens, log_probs = [], []
        cache = None
        for step in range(steps):
            output = self.model(
                input_ids=ids,
                attention_mask=mask[:, : width + step],
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = output.past_key_values
            drawn, drawn_log_probs = _draw(output.logits[:, -1].float(), requests[0].style, numbers[:, step])
            tokens.append(drawn)
            log_probs.append(drawn_log_probs)
            lengths += active
            ended = torch.isin(drawn, torch.tensor(sorted(self.end))) if self.end else torch.zeros_like(active)
            active &= ~ended & (lengths < limits)
            if not bool(active.any()):
                break
            ids, positions = drawn.unsqueeze(-1), positions[:, -1:] + 1
        table, scores = torch.stack(tokens, dim=1).tolist(), torch.stack(log_probs, dim=1).tolist()
        return [
            Completion(tokens=row[:count], log_probs=row_scores[:count])
            for row, row_scores, count in zip(table, scores, lengths.tolist(), strict=True)
        ]


def _place(request: Request) -> tuple[float, float, int, tuple[int, ...], int]:
    style = request.style
    return style.temperature, style.top_p, style.top_k, request.prompt, request.seed


def _draw(logits: torch.Tensor, style: Style, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if style.temperature == 0:
        log_probs = torch.log_softmax(logits, dim=-1)
        drawn = logits.argmax(dim=-1)
    else:
        log_probs = warp(logits, style.temperature, style.top_k, style.top_p)
        drawn = draw(log_probs, numbers)
    return drawn, log_probs.gather(-1, drawn.unsqueeze(-1)).squeeze(-1)
