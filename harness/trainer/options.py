"""The node `harness` of a verl config: what our trainer reads beside verl's own keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSettings:
    """Checked on construction; the first four are set for each attempt by `harness.trainer.main`."""

    run_dir: str
    """The run's folder, where outcomes, metrics and the heartbeat go."""
    run_id: str
    """Ten hex digits; also the id of the W&B run."""
    attempt: int = 1
    """Number of this attempt, from 1."""
    stop_file: str | None = None
    """Path of a file whose existence asks the trainer to end after the step in progress."""
    reference_K: float = 0.4
    """Quantile level that tells hard from easy groups for estimators without a K of their own."""
    words: tuple[str, ...] = ()
    """Anthropomorphic words to count, whole words, whatever the case."""
    pass_at: tuple[int, ...] = (1, 16)
    """The k of the pass@k that are logged at an evaluation; a k above the number of samples is left out."""
    token_steps: tuple[int, ...] = ()
    """Steps at which the table of tokens is written."""
    scorer: str = "unnamed/0"
    """Name and version of the reward function, written beside every evaluation row."""
    poll_interval: float = 0.02
    """Seconds between looks at the transfer queue; verl waits 2."""
    save_on_stop: bool = True
    """Save a checkpoint when asked to stop."""
    keep_best: bool = False
    """The checkpoint with the best pass@1 stays, beside the last `trainer.max_actor_ckpt_to_keep`."""
    keep_every: int | None = None
    """So do those at multiples of so many steps."""
    deterministic_filter: bool = True
    """Dynamic sampling in rounds, ordered by uid, so that it is reproducible; off: verl's own scheduling."""
    filter_rounds: int = 100
    """Most rounds of dynamic sampling in one step before the run fails by name instead of looping for ever."""
    stock_validation_metrics: bool = False
    """Also log verl's val-core and val-aux metrics, whose best@N is a bootstrap and not pass@N."""
    batched_rollout: bool = True
    """CPU mode: agent loops in the trainer's process, requests decoded as one batch; off: verl's own workers."""
    trainer_in_driver: bool = True
    """Run the trainer in the driver process instead of a Ray actor: one process fewer to start."""

    def __post_init__(self) -> None:
        if not 0 < self.reference_K < 1:
            raise HarnessError(f"harness.reference_K={self.reference_K}: use a level between 0 and 1, such as 0.4")
        if self.poll_interval <= 0:
            raise HarnessError(f"harness.poll_interval={self.poll_interval}: use seconds above 0, such as 0.02")
        if self.filter_rounds < 1:
            raise HarnessError(f"harness.filter_rounds={self.filter_rounds}: use at least 1")

    @classmethod
    def read(cls, node: Mapping[str, Any] | None) -> TrainerSettings:
        """Settings from the mapping at `harness`; an absent node and unknown keys are errors."""
        if node is None:
            raise HarnessError("the verl config has no node `harness`: start runs with python -m harness.trainer.main")
        known = {field.name for field in fields(cls)}
        for key in node:
            if key not in known:
                raise HarnessError(f"harness.{key} is unknown: {nearest(str(key), known)}")
        for key in ("run_dir", "run_id"):
            if not node.get(key):
                raise HarnessError(f"harness.{key} is missing: python -m harness.trainer.main sets it")
        values: dict[str, Any] = {key: value for key, value in node.items() if value is not None}
        for key in ("words", "token_steps", "pass_at"):
            if key in values:
                values[key] = tuple(values[key])
        return cls(**values)

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.run_dir)

    def stop_requested(self) -> bool:
        """Whether somebody asked the trainer to end."""
        return self.stop_file is not None and Path(self.stop_file).exists()
