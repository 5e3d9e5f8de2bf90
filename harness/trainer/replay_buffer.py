"""verl's replay buffer with an order that does not depend on timing.

The stock buffer (verl/trainer/ppo/v1/replay_buffer.py) hands out rows in order of arrival, and under dynamic sampling
it picks groups from a set and refills while others are in flight, so that which prompts are drawn depends on the clock.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, _accumulate_eviction_metrics

from harness.errors import HarnessError
from harness.trainer.outcomes import split_key

VALIDATION = "val"
"""verl's partition of evaluation rows."""


class OrderedReplayBuffer(ReplayBuffer):
    """Rows come in the order of their keys; dynamic sampling goes in rounds, each judged when it is complete."""

    def __init__(
        self,
        *,
        deterministic_filter: bool = True,
        filter_rounds: int = 100,
        on_evaluation: Callable[[KVBatchMeta], None] | None = None,
        on_round: Callable[[], None] | None = None,
        **stock: Any,
    ) -> None:
        """Args:
        deterministic_filter: False leaves dynamic sampling to verl's own scheduling.
        filter_rounds: most rounds of one step.
        on_evaluation: sees every batch of evaluation rows.
        on_round: called when a round of dynamic sampling begins.
        stock: the arguments of verl's buffer.
        """
        super().__init__(**stock)
        self.deterministic_filter = deterministic_filter
        self.filter_rounds = filter_rounds
        self.on_evaluation = on_evaluation
        self.on_round = on_round

    @classmethod
    def adopt(cls, stock: ReplayBuffer, **more: Any) -> OrderedReplayBuffer:
        """A buffer with the settings of `stock`, which keeps every argument under its own name; `more` overrides."""
        names = [name for name in inspect.signature(ReplayBuffer.__init__).parameters if name != "self"]
        return cls(**{name: getattr(stock, name) for name in names} | more)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """Waits for `batch_size` groups and returns their rows in the order of their keys, with verl's metrics."""
        filtered = partition_id != VALIDATION and self.filter_groups_metric is not None
        if filtered and self.deterministic_filter:
            batch, metrics = self._sample_in_rounds(global_steps, partition_id, batch_size)
        else:
            batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        batch.reorder(sorted(range(len(batch.keys)), key=lambda i: split_key(batch.keys[i])))
        if partition_id == VALIDATION and self.on_evaluation is not None:
            self.on_evaluation(batch)
        return batch, metrics

    def _sample_in_rounds(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, Any]]:
        """The refill rule of the stock buffer (2k prompts for k evicted groups, never more than
        max_inflight_gen_batches batches at once), applied when no request is in flight."""
        metrics: dict[str, Any] = {}
        credit, most = 0, self.max_inflight_gen_batches * (self.train_batch_size or batch_size)
        for _ in range(self.filter_rounds):
            if self.on_round is not None:
                self.on_round()
            self._wait_until_settled(partition_id)
            reasons = self._terminal_eviction_reasons(global_steps, partition_id)
            _, stale, evicted, new = self._evict_terminal_groups(global_steps, partition_id, reasons)
            if new:
                _accumulate_eviction_metrics(metrics, new, stale)
            ready = self._sampleable_terminal_keys(partition_id, reasons)
            if len(ready) >= batch_size:
                return self._take(partition_id, ready, batch_size, metrics), metrics
            credit += 2 * evicted + len(reasons[2])
            refill = min(max(credit, batch_size - len(ready)), most)
            self.refill_fn(refill)
            credit = max(0, credit - refill)
        raise HarnessError(
            f"dynamic sampling found fewer than {batch_size} groups with unequal {self.filter_groups_metric} in "
            f"{self.filter_rounds} rounds at step {global_steps}: the model solves all or none of the prompts; use "
            "other data, or algorithm.filter_groups.enable=false"
        )

    def _wait_until_settled(self, partition_id: str) -> None:
        last_report = time.time()
        while True:
            self._sync_metadata_from_transfer_queue()
            if not self.pending_keys[partition_id] and not self.running_keys[partition_id]:
                return
            last_report = self._wait_for_next_poll(partition_id, last_report)

    def _take(self, partition_id: str, ready: set[str], batch_size: int, metrics: dict[str, Any]) -> KVBatchMeta:
        chosen, snapshot, _ = self._select_prompt_uids(partition_id, ready, batch_size)
        surplus = ready - set(chosen)
        if surplus:
            self._clear_groups(partition_id, surplus)
            name = f"{self._metrics_prefix(partition_id)}/filter_groups/discarded_surplus_samples"
            metrics[name] = metrics.get(name, 0) + len(surplus)
        return self._materialize_batch(partition_id, chosen, snapshot)

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict], dict[str, int]]:
        # Sorted by uid first: the stock method's own sort is stable but starts from the order of a set.
        ordered: Any = sorted(sampleable_keys)
        return super()._select_prompt_uids(partition_id, ordered, batch_size)
