"""GPU-hours of a run: an order of magnitude before it starts, from stated assumptions. Nothing here is measured.

Generation: a GPU produces tokens at a fixed share of its peak arithmetic, as long-context decoding does. Training:
forward, backward and recomputation of a step's tokens, and one forward pass for the old log-probabilities (one more
with a reference policy), at the usual utilisation of FSDP.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from harness.config.settings import Settings
from harness.tasks.data import catalogue

PEAK_FLOPS = 989e12
"""bfloat16, dense, of an H100 SXM."""
TRAINING_UTILISATION = 0.35
DECODING_UTILISATION = 0.05
"""About 3,000 tokens a second a GPU for an 8-billion-parameter model."""
MOST_TOKENS_A_SECOND = 20_000
"""A GPU decodes no faster, however small the model."""
STEP_SECONDS = 60.0
"""Of every step beside generation and training: weights to vLLM, rewards, offloading, logging; all GPUs wait."""
MEAN_LENGTH = 0.3
"""Mean response length as a share of the longest: about 6,000 tokens of 20,480."""
OVERSAMPLING = 1.7
"""Responses drawn for one that is kept, with dynamic sampling."""
UNKNOWN_PROBLEMS = 100


def gpu_hours(settings: Settings, verl: Mapping[str, Any]) -> float:
    """Estimated GPU-hours of a whole run; 0 on a CPU and for a model whose shape is not given."""
    shape = settings.model.architecture
    if shape is None or settings.platform != "cuda":
        return 0.0
    length = MEAN_LENGTH * settings.data.max_response_length
    kept = settings.steps * settings.recipe.prompts_per_step * settings.recipe.group_size * length
    drawn = kept * (OVERSAMPLING if verl["algorithm"]["filter_groups"]["enable"] else 1.0)
    passes = settings.steps // settings.evaluation.every + settings.evaluation.before_training
    evaluated = passes * _problems(settings) * settings.evaluation.samples * length
    forwards = 1 + bool(verl["actor_rollout_ref"]["actor"]["use_kl_loss"])
    training = kept * 2 * shape.active * (3 + 1 + forwards)  # backward costs two forwards, checkpointing one more
    speed = min(MOST_TOKENS_A_SECOND, PEAK_FLOPS * DECODING_UTILISATION / (2 * shape.active))
    waiting = settings.steps * STEP_SECONDS * settings.model.resources.gpus * settings.model.resources.nodes
    return (training / (PEAK_FLOPS * TRAINING_UTILISATION) + (drawn + evaluated) / speed + waiting) / 3600


def _problems(settings: Settings) -> int:
    names = [PurePath(file).stem for file in settings.evaluation.files]
    counts = [catalogue.SOURCES[name].least if name in catalogue.SOURCES else None for name in names]
    return sum(count or UNKNOWN_PROBLEMS for count in counts)
