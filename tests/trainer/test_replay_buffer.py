"""The rounds of dynamic sampling against a transfer queue that lives in a dictionary."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import HarnessError

pytestmark = pytest.mark.slow  # imports verl


class Queue:
    """What verl's replay buffer uses of the module transfer_queue. Prompts are answered when the metadata is read."""

    def __init__(self, rewards: dict[str, list[float]]) -> None:
        self.rewards = rewards
        self.drawn: list[str] = []
        self.items: dict[str, dict[str, Any]] = {}

    def draw(self, count: int) -> int:
        for uid in list(self.rewards)[len(self.drawn) : len(self.drawn) + count]:
            self.drawn.append(uid)
            self.items[uid] = {"is_prompt": True, "status": "pending", "global_steps": 1}
        return count

    def kv_list(self, *_: Any) -> dict[str, dict[str, dict[str, Any]]]:
        listing = {"train": {key: dict(tag) for key, tag in self.items.items()}}
        for uid in [key for key, tag in self.items.items() if tag.get("status") == "pending"]:
            for sample in reversed(range(len(self.rewards[uid]))):
                self.items[f"{uid}_{sample}_0"] = {"status": "success"}
            self.items[uid]["status"] = "finished"
        return listing

    def kv_batch_get(self, keys: list[str], **_: Any) -> dict[str, Any]:
        import torch

        values = [self.rewards[key.split("_")[0]][int(key.split("_")[1])] for key in keys]
        return {"rm_scores": [torch.tensor([value]) for value in values]}

    def kv_clear(self, keys: list[str], **_: Any) -> None:
        for key in keys:
            self.items.pop(key, None)


@pytest.fixture
def sample(monkeypatch):
    from verl.trainer.ppo.v1 import replay_buffer

    from harness.trainer.replay_buffer import OrderedReplayBuffer

    def run(rewards: list[list[float]], batch_size: int = 2, rounds: int = 10, **more: Any) -> SimpleNamespace:
        queue = Queue({f"s000001p{i:05d}": values for i, values in enumerate(rewards)})
        monkeypatch.setattr(replay_buffer, "tq", queue)
        stock = replay_buffer.ReplayBuffer(
            trainer_mode="sync", trainer_config={}, max_off_policy_threshold=8, max_off_policy_strategy="drop",
            sampler_kwargs={}, refill_fn=queue.draw, filter_groups_metric="reward", train_batch_size=batch_size,
            gen_batch_size=1,
        )  # fmt: skip
        buffer = OrderedReplayBuffer.adopt(stock, poll_interval=0.0, filter_rounds=rounds, **more)
        queue.draw(batch_size)
        batch, metrics = buffer.sample(global_steps=1, partition_id="train", batch_size=batch_size)
        return SimpleNamespace(queue=queue, keys=batch.keys, metrics=metrics, buffer=buffer, stock=stock)

    return run


MIXED, EQUAL = [0.0, 1.0], [1.0, 1.0]


def test_rows_come_in_the_order_of_their_keys(sample):
    result = sample([MIXED, MIXED])
    assert result.keys == ["s000001p00000_0_0", "s000001p00000_1_0", "s000001p00001_0_0", "s000001p00001_1_0"]
    assert result.metrics == {}


def test_equal_groups_are_replaced_and_the_first_drawn_are_taken(sample):
    result = sample([EQUAL, MIXED, MIXED, MIXED])
    assert sorted({key.split("_")[0] for key in result.keys}) == ["s000001p00001", "s000001p00002"]
    assert len(result.queue.drawn) == 4  # one evicted: two drawn, as in verl
    assert result.metrics["training/filter_groups/evicted_samples"] == 1
    assert result.metrics["training/filter_groups/discarded_surplus_samples"] == 1
    assert result.queue.items == {key: {"status": "success"} for key in result.keys}


def test_a_round_never_exceeds_what_may_be_in_flight(sample):
    result = sample([EQUAL] * 6 + [MIXED] * 4)
    assert result.queue.drawn == [f"s000001p{i:05d}" for i in range(8)]
    assert result.metrics["training/filter_groups/evicted_samples"] == 6


def test_a_model_that_solves_everything_fails_by_name_instead_of_looping(sample):
    with pytest.raises(HarnessError, match="in 3 rounds at step 1"):
        sample([EQUAL] * 100, rounds=3)


def test_every_argument_of_verls_buffer_is_adopted(sample):
    result = sample([MIXED, MIXED])
    kept = {name: value for name, value in vars(result.stock).items() if not isinstance(value, dict)}
    kept.pop("poll_interval")
    assert {name: vars(result.buffer)[name] for name in kept} == kept


def test_each_round_shows_that_the_run_lives(sample):
    beats: list[None] = []
    sample([EQUAL, EQUAL, MIXED, MIXED], on_round=lambda: beats.append(None))
    assert len(beats) == 2
