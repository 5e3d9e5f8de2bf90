"""What decides the built-in data and models, as plain JSON: it enters signatures without torch or pandas."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

from harness.errors import HarnessError, nearest
from harness.tasks.builtin import arithmetic
from harness.tasks.builtin.reward import SCORER

ARCHITECTURE: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 32, "initializer_range": 0.06,
    },
    "small": {
        "hidden_size": 192, "intermediate_size": 448, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 1, "head_dim": 32, "initializer_range": 0.06,
    },
}  # fmt: skip
"""Qwen3 architectures of about 0.3 and 1 million parameters. Weights start three times wider than Qwen's: models this
narrow then learn to add in a few hundred steps."""

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Padding, begin and end, by Qwen's names: verl's agent loop asks for the last."""

SLIP_SHARE = {"arithmetic_easy": 0.25, "arithmetic_hard": 0.75}
"""Share of the demonstrations whose last digit is random: it sets the success rates that training starts at."""

WARM_START: dict[str, dict[str, Any]] = {
    "tiny": {"steps": 350, "batch": 32, "learning_rate": 4e-3, "slip_share": SLIP_SHARE, "seed": 0},
    "small": {"steps": 250, "batch": 32, "learning_rate": 2.5e-3, "slip_share": SLIP_SHARE, "seed": 0},
}
"""Supervised steps on demonstrations: a fixed number, to about 0.3-0.6 sampled accuracy."""

REVISION = 2
"""Of the code that makes models; raised when its result changes though no number here does."""


def model_identity(name: str) -> dict[str, Any]:
    """Architecture and warm start of a built-in model. Raises: HarnessError for an unknown name."""
    if name not in ARCHITECTURE:
        raise HarnessError(f"model.builtin={name}: {nearest(name, ARCHITECTURE)}")
    return {
        "builtin": name,
        "architecture": ARCHITECTURE[name],
        "tokens": [*SPECIAL_TOKENS, arithmetic.CHARACTERS],
        "warm_start": {**WARM_START[name], "revision": REVISION, "task": _digest()},
    }


def data_identity(name: str) -> dict[str, Any]:
    """Content hash and scorer of a built-in task. Raises: HarnessError for an unknown name."""
    if name != "arithmetic":
        raise HarnessError(f"data.builtin={name}: {nearest(name, ['arithmetic'])}")
    return {"builtin": name, "content": _digest(), "scorer": SCORER}


@functools.cache
def _digest() -> str:
    """SHA-256 over every problem, training and evaluation."""
    sets = [arithmetic.training_set(), *map(arithmetic.evaluation_set, arithmetic.BENCHMARKS)]
    rows = [[[p.benchmark, p.index, p.prompt, p.answer] for p in problems] for problems in sets]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
