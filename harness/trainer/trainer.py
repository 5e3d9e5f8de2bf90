"""verl's synchronous trainer with a record of every response.

The training loop stays verl's (PPOTrainer.fit, verl/trainer/ppo/v1/trainer_base.py); this subclass uses the methods
that it offers to subclasses. What it changes in the loop: prompts get stable uids, batches a stable order, and a
checkpoint is written at the end of its step, when the step's outcomes, evaluation and metrics are on disk, so that a
kill at any moment loses nothing that the checkpoint covers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils
from verl.utils.debug import marked_timer

from harness.files import read_json
from harness.store.retention import Policy
from harness.tasks.scoring import scorer
from harness.trainer import agent_loop, checkpoints, tracking
from harness.trainer.batches import read_responses
from harness.trainer.metrics import discarded_groups, evaluation_metrics, train_metrics
from harness.trainer.options import TrainerSettings
from harness.trainer.outcomes import evaluation_table, token_table, train_table, word_pattern
from harness.trainer.records import Records
from harness.trainer.replay_buffer import OrderedReplayBuffer
from harness.trainer.seeds import evaluation_seed, train_uid

logger = logging.getLogger(__name__)

NAME = "harness"
"""The value of `trainer.v1.trainer_mode`."""

BATCHED = "harness.trainer.cpu.batched.BatchedAgentLoopManager"
"""`rollout.agent.agent_loop_manager_class` of CPU mode (`cpu.batched.PATH`, named here without importing it)."""

ROW_COLUMNS = ("input_ids", "position_ids", "loss_mask", "response_mask", "prompts", "responses")
"""What workers read of a row as the rollout writes it."""

ADDED_COLUMNS = ("old_log_probs", "ref_log_prob", "advantages")
"""What a step computes before the update."""


class StepLogger:
    """Stands where verl keeps its `Tracking`: logs, then lets the trainer finish the step."""

    def __init__(self, inner: Any, after_log: Any) -> None:
        self.inner = inner
        self.after_log = after_log

    def log(self, data: Mapping[str, Any], step: int, backend: Any = None) -> None:
        """Logs a step's scalars to verl's backends; `after_log(data, step)` runs when they have them."""
        self.inner.log(data=data, step=step, backend=backend)
        self.after_log(data, step)

    def finish(self, exit_code: int = 0) -> None:
        """Flushes verl's backends."""
        self.inner.finish(exit_code=exit_code)


@register_trainer(NAME)
class RecordingTrainer(PPOTrainerSync):
    """PPOTrainerSync that writes outcomes, metrics and a heartbeat into the run's folder."""

    # verl compares the mode with "sync" in several places (trainer_base.py); ours behaves as that one.
    trainer_mode = property(lambda self: "sync", lambda self, value: None)

    def __init__(self, config: DictConfig) -> None:
        """Args:
        config: verl's config with the node `harness` (TrainerSettings).
        """
        self.settings = TrainerSettings.read(config.get("harness"))
        self.records = Records(folder=self.settings.folder, attempt=self.settings.attempt)
        self.words = word_pattern(self.settings.words)
        self.K = _quantile_level(config, self.settings)
        self.checkpoint_root = Path(config.trainer.default_local_dir)
        self.keep_checkpoints = config.trainer.get("max_actor_ckpt_to_keep")
        self.repeat: list[Mapping[str, Any]] = []
        self._backends: list[str] = []
        self._uid_step, self._uid_position = -1, 0
        self._evaluated: list[pa.Table] = []
        self._save_due = False
        self.worker_columns = worker_columns(config)
        super().__init__(config)

    # ---- order and identity ------------------------------------------------------------------------------------

    def _build_replay_buffer(self) -> OrderedReplayBuffer:
        return OrderedReplayBuffer.adopt(
            super()._build_replay_buffer(),
            poll_interval=self.settings.poll_interval,
            deterministic_filter=self.settings.deterministic_filter,
            filter_rounds=self.settings.filter_rounds,
            on_evaluation=self._record_evaluation,
            on_round=lambda: self.records.beat("train", self.global_steps - 1),
        )

    def _fetch_one_gen_batch(self) -> Any:
        batch = super()._fetch_one_gen_batch()
        if self._uid_step != self.global_steps:  # counted within a step: the same uids after a resume
            self._uid_step, self._uid_position = self.global_steps, 0
        uids = [train_uid(self.global_steps, self._uid_position + i) for i in range(len(batch))]
        self._uid_position += len(batch)
        column: dict[str, Any] = {"uid": np.array(uids, dtype=object)}
        batch.set("uid", tensordict_utils.get_tensordict(column).get("uid"))
        return batch

    # ---- the loop's hooks --------------------------------------------------------------------------------------

    def fit(self, agent_loop_manager: Any) -> None:
        """Trains to the target step or until asked to stop."""
        self.records.total = self.total_training_steps
        self.records.beat("start", self.global_steps)
        self._backends = list(self.config.trainer.logger)
        with open_dict(self.config.trainer):  # verl would start a W&B run of its own; the setter below does it
            self.config.trainer.logger = [name for name in self._backends if name != "wandb"]
        super().fit(agent_loop_manager)
        self.records.beat("end", self.global_steps - 1)

    @property
    def logger(self) -> Any:
        """verl's `Tracking`, followed by our end of step; `fit` sets it."""
        return getattr(self, "_step_logger", None)

    @logger.setter
    def logger(self, inner: Any) -> None:
        if "wandb" in self._backends:
            inner.logger["wandb"] = tracking.start(read_json(self.settings.folder / "spec.json"), self.settings.folder)
        with open_dict(self.config.trainer):
            self.config.trainer.logger = self._backends
        for line in self.repeat:
            inner.log(data=line["metrics"], step=line["step"], backend=["wandb"])
        self.repeat = []
        self._step_logger = StepLogger(inner, self._end_step)

    def on_step_begin(self) -> None:
        """Shows the phase."""
        super().on_step_begin()
        self.records.beat("train", self.global_steps - 1)

    def prepare_step(self) -> dict[str, Any]:
        """Asks for the step's responses; timed as generation, since the batched rollout answers here."""
        with marked_timer("gen", self.timing_raw):
            return super().prepare_step()

    def on_validate_begin(self) -> None:
        """Shows the phase."""
        super().on_validate_begin()
        self.records.beat("eval", max(0, self.global_steps - 1))

    def _compute_metrics(self, batch: Any, metrics: dict, timing_raw: dict, global_steps: int, epoch: int) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        metrics.pop("timing_s/save_checkpoint", None)  # it times our postponing, not a save
        responses = read_responses(batch, self.tokenizer, train=True)
        table = train_table(responses, global_steps, self.words)
        self.records.write_outcomes("train", global_steps, table)
        if global_steps in self.settings.token_steps:
            text_of = partial(self.tokenizer.decode, skip_special_tokens=False)
            self.records.write_outcomes("tokens", global_steps, token_table(responses, lambda token: text_of([token])))
        metrics.update(train_metrics(table, self.K, discarded_groups(metrics)))

    def _end_step(self, metrics: Mapping[str, Any], step: int) -> None:
        """Runs when a step's metrics have been logged; step 0 is the evaluation before training."""
        self.records.write_metrics(step, metrics)
        stop = self.settings.stop_requested()
        if self._save_due or (stop and self.settings.save_on_stop and step > 0):
            self.records.beat("save", step, metrics=metrics)
            self._save_now()
        self.records.beat("train", step, metrics.get("timing_s/step"), metrics)
        if stop:
            logger.warning("asked to stop by %s: ending after step %d", self.settings.stop_file, step)
            self.total_training_steps = step

    # ---- what travels to the training workers ------------------------------------------------------------------

    def _compute_old_log_prob(self, batch: Any, metrics: dict) -> Any:
        return super()._compute_old_log_prob(self._lightened(batch), metrics)

    def _compute_ref_log_prob(self, batch: Any, metrics: dict) -> Any:
        return super()._compute_ref_log_prob(self._lightened(batch), metrics)

    def _update_actor(self, batch: Any, metrics: dict) -> Any:
        return super()._update_actor(self._lightened(batch), metrics)

    def _lightened(self, batch: Any) -> Any:
        """The same rows, for which workers fetch only the columns that they read. CPU mode, where columns are known."""
        if self.worker_columns:
            known = ROW_COLUMNS if batch.fields is None else batch.fields
            batch.fields = [name for name in self.worker_columns if name in known]
        return batch

    # ---- evaluation --------------------------------------------------------------------------------------------

    def _validate(self) -> dict[str, Any]:
        self._evaluated = []
        metrics = super()._validate()
        table = pa.concat_tables(self._evaluated)
        table = table.sort_by([("benchmark", "ascending")]) if len(self._evaluated) > 1 else table
        self.records.write_outcomes("eval", self.global_steps, table)
        return {**metrics, **evaluation_metrics(table, self.settings.pass_at), tracking.STEP: self.global_steps}

    def _record_evaluation(self, batch: Any) -> None:
        seeded = self.config.actor_rollout_ref.rollout.agent.default_agent_loop == agent_loop.NAME
        seed = int(self.config.actor_rollout_ref.rollout.seed)
        responses = read_responses(batch, self.tokenizer, train=False)
        seed_of = partial(evaluation_seed, seed, self.global_steps) if seeded else None
        judge = scorer.current(self.settings.scorer)
        table = evaluation_table(responses, self.global_steps, self.words, judge, seed_of)
        self._evaluated.append(table)
        self.records.beat("eval", max(0, self.global_steps - 1))

    def _val_metrics_update(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        # The stock metrics bootstrap best@N a thousand times a problem, and best@N is not pass@N.
        return super()._val_metrics_update(*args, **kwargs) if self.settings.stock_validation_metrics else {}

    # ---- checkpoints -------------------------------------------------------------------------------------------

    def _load_checkpoint(self) -> None:
        resumed = checkpoints.repair(self.checkpoint_root) if self.config.trainer.resume_mode == "auto" else None
        super()._load_checkpoint()
        if resumed is not None and resumed != self.global_steps:
            raise RuntimeError(f"asked verl to resume from step {resumed}, it resumed from {self.global_steps}")
        lines = self.records.read_metrics()
        self.repeat = list(tracking.rows_to_repeat(lines, self.global_steps))
        self.records.rewind(self.global_steps)
        self.records.show(lines, self.global_steps)
        if self.global_steps > 0 and not self.config.trainer.get("val_only"):
            with open_dict(self.config.trainer):  # the checkpoint's step was evaluated when it was due
                self.config.trainer.val_before_train = False

    def _save_checkpoint(self) -> None:
        self._save_due = True  # called in mid-step; `_end_step` saves

    def _save_now(self) -> None:
        with open_dict(self.config.trainer):  # verl would remove the old checkpoint before the new one is whole
            self.config.trainer.max_actor_ckpt_to_keep = None
            self.config.trainer.max_critic_ckpt_to_keep = None
        super()._save_checkpoint()
        checkpoints.seal(self.checkpoint_root, self.global_steps)
        policy = Policy(self.keep_checkpoints or 1, self.settings.keep_best, self.settings.keep_every)
        checkpoints.prune(self.checkpoint_root, self.keep_checkpoints, policy)
        self._save_due = False


def worker_columns(config: DictConfig) -> tuple[str, ...]:
    """Columns that a training worker reads, in the order in which steps add them; empty where that is not known.

    verl sends all of a row to the workers, each row's columns one by one; with responses of a few tokens that is a
    good part of a step. Known for text and FSDP without rollout correction (verl/workers/engine/fsdp, workers/utils).
    """
    rollout = config.actor_rollout_ref.rollout
    corrected = OmegaConf.select(config, "algorithm.rollout_correction.rollout_is")
    if rollout.agent.get("agent_loop_manager_class") != BATCHED or corrected:
        return ()
    return ROW_COLUMNS + ADDED_COLUMNS


def _quantile_level(config: DictConfig, settings: TrainerSettings) -> float:
    """K of the estimator, or the reference K for those that have none."""
    if config.algorithm.adv_estimator != "qae":
        return settings.reference_K
    return float(OmegaConf.select(config, "algorithm.qae.K", default=settings.reference_K))
