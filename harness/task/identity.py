"""What decides the built-in data and models, as plain JSON: it enters signatures without torch or pandas."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from harness.errors import HarnessError, nearest
from harness.task import arithmetic
from harness.task.reward import SCORER

ARCHITECTURE: dict[str, dict[str, int]] = {
    "tiny": {
        "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 32,
    },
    "small": {
        "hidden_size": 192, "intermediate_size": 448, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 1, "head_dim": 32,
    },
}  # fmt: skip
"""Qwen3 architectures of about 0.3 and 1 million parameters."""

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Padding, begin and end, by Qwen's names: verl's agent loop asks for the last."""

WARM_START: dict[str, dict[str, Any]] = {
    "tiny": {"steps": 400, "batch": 32, "learning_rate": 3e-3, "note_share": 0.5, "seed": 0},
    "small": {"steps": 250, "batch": 32, "learning_rate": 2e-3, "note_share": 0.5, "seed": 0},
}
"""Supervised steps on demonstrations: a fixed number, to about 0.3-0.6 sampled accuracy."""


def model_identity(name: str) -> dict[str, Any]:
    """Architecture and warm start of a built-in model. Raises: HarnessError for an unknown name."""
    if name not in ARCHITECTURE:
        raise HarnessError(f"model.builtin={name}: {nearest(name, ARCHITECTURE)}")
    return {
        "builtin": name,
        "architecture": ARCHITECTURE[name],
        "tokens": [*SPECIAL_TOKENS, arithmetic.CHARACTERS],
        "warm_start": {**WARM_START[name], "task": _digest()},
    }


def data_identity(name: str) -> dict[str, Any]:
    """Content hash and scorer of a built-in task. Raises: HarnessError for an unknown name."""
    if name != "arithmetic":
        raise HarnessError(f"data.builtin={name}: {nearest(name, ['arithmetic'])}")
    return {"builtin": name, "content": _digest(), "scorer": SCORER}


def _digest() -> str:
    """SHA-256 over every problem, training and evaluation."""
    sets = [arithmetic.training_set(), *map(arithmetic.evaluation_set, arithmetic.BENCHMARKS)]
    rows = [[[p.benchmark, p.index, p.prompt, p.answer] for p in problems] for problems in sets]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
