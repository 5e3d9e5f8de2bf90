"""The W&B run of an attempt.

verl calls `wandb.init(project, name, config)` without an id, a group or our config (verl/utils/tracking.py). The
trainer therefore starts the run here and puts it where verl's `Tracking` keeps its own.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

STEP = "training/global_step"
"""The step axis of every chart; `_step` is not reliable on resumed runs."""

MARGIN_SECONDS = 90.0
"""W&B writes to disk every 15 s or 32 KiB; rows older than this before the last one are safe."""


def start(spec: Mapping[str, Any], run_dir: Path) -> Any:
    """Starts the W&B run of a frozen spec; mode, folder, group and job type come from the environment.

    Args:
        spec: the content of spec.json.
        run_dir: the run's folder; W&B's files go to <run_dir>/wandb.

    Returns: the wandb run.
    """
    import wandb

    tracking = spec.get("config", {}).get("tracking", {})
    arguments: dict[str, Any] = {
        "project": tracking.get("project") or os.environ.get("WANDB_PROJECT", "qae"),
        "entity": tracking.get("entity") or os.environ.get("WANDB_ENTITY"),
        "id": spec["id"],
        "name": spec.get("label", spec["id"]),
        "resume": "allow",
        "dir": str(run_dir),
        "config": logged_config(spec),
        "settings": wandb.Settings(console="off", save_code=False),  # stdout is in the attempt's folder already
    }
    try:
        run = wandb.init(**arguments)
    except wandb.errors.Error as error:  # no account, no key, no network: training goes on all the same
        logger.warning("W&B is not reachable (%s): logging offline; send it later with wandb sync", error)
        run = wandb.init(**arguments, mode="offline")
    run.define_metric(STEP)
    run.define_metric("*", step_metric=STEP)
    return run


def finish_service() -> None:
    """Ends W&B's background process, if there is one, after everything is on disk."""
    wandb = sys.modules.get("wandb")
    if wandb is not None:
        wandb.teardown()


def logged_config(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What W&B shows as the run's config: the composed groups, verl's whole config, id and label."""
    return {**spec.get("config", {}), "verl": spec["verl"], "id": spec["id"], "label": spec.get("label", spec["id"])}


def rows_to_repeat(
    lines: Sequence[Mapping[str, Any]], resumed: int, margin: float = MARGIN_SECONDS
) -> list[Mapping[str, Any]]:
    """Rows that a killed attempt may not have brought to disk although its checkpoint covers them.

    The new fragment begins with them, so that a history stitched from fragments, the later one winning from its first
    step, has every step once.

    Args:
        lines: of metrics.jsonl, ascending steps.
        resumed: the step of the checkpoint.
        margin: seconds before the last row; what was handed to W&B's file within them counts as endangered.
    """
    if not lines:
        return []
    last = max(line["time"] for line in lines)
    # The SDK holds a row back until the next step's row is logged: its own time says less than that of the next.
    handed_on = [following["time"] for following in lines[1:]] + [last]
    endangered = [line["step"] for line, time in zip(lines, handed_on, strict=True) if time >= last - margin]
    return [line for line in lines if endangered[0] <= line["step"] <= resumed]
