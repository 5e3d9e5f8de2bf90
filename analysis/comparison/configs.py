"""Configs of runs as flat keys, and which of them make another arm."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.run import Run

ABSENT = "not set"
"""As the value of a key that a config does not have."""
# What never makes another arm: where and under which name a run ran, and its seeds.
_INCIDENTAL = re.compile(
    r"^(cluster|tracking|id|label|seed|budget|provenance|words|token_steps|save_every|keep_checkpoints)(\.|$)"
    r"|^platform$|^verl\.(trainer|harness|ray_kwargs|transfer_queue)(\.|$)"
    r"|(^|[._])(seed|path|dir|file|files|name_or_path|port|run_id|attempt|project_name|experiment_name)s?$"
    r"|micro_batch|num_workers|offload|parallel_size|max_token_len|gpu_memory|timeout|checkpoint|profiler"
    r"|resources"
)
OF_THE_BASELINE = re.compile(r"^baseline\.|(^|\.)algorithm\.(adv_estimator$|qae\.|norm_adv_by_std_in_grpo$)")
"""Keys by which two baselines differ within one setting."""


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> leaf of a nested config; lists are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            leaves |= flat(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def varying(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Every config key on which the runs differ -> its value in each run, as text, seeds and paths included."""
    leaves = [flat(run.config) for run in runs]
    keys = sorted({key for config in leaves for key in config})
    table = {key: [text(config.get(key, ABSENT)) for config in leaves] for key in keys}
    return {key: values for key, values in table.items() if len(set(values)) > 1}


def decides(key: str) -> bool:
    """Whether a config key makes another arm: not a seed, a path, a name of the run, or where it ran."""
    return not _INCIDENTAL.search(key)


def text(value: Any) -> str:
    """A value as labels show it and settings are compared by."""
    return f"{value:g}" if isinstance(value, float) else str(value)
