"""A rollout for verl's agent loop that decodes with transformers on the CPU.

One server (`cpu.server`) per training worker, which sends it its weights through Ray. The interfaces are verl's:
`RolloutReplica` (verl/workers/rollout/replica.py) and `BaseRollout` (verl/workers/rollout/base.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica

from harness.errors import HarnessError
from harness.trainer.cpu.server import Server


def server_name(rank: int) -> str:
    """Ray actor name of the server beside training worker `rank`, unique to the Ray job."""
    return f"hf_cpu_server_{ray.get_runtime_context().get_job_id()}_{rank}"


class Replica(RolloutReplica):
    """Starts one server."""

    async def launch_servers(self) -> None:
        """Starts the server as a Ray actor that takes no slot."""
        if self.world_size != 1:
            raise HarnessError(
                f"rollout.tensor_model_parallel_size x data x pipeline = {self.world_size}: the CPU rollout server "
                "does not split a model; set them to 1"
            )
        model_config: Any = self.model_config  # raw here, a dataclass in the server
        name = server_name(self.replica_rank)
        options: dict[str, Any] = {"name": name, "num_cpus": 0, "max_concurrency": self.max_concurrency}
        actor: Any = ray.remote(Server)
        server = actor.options(**options).remote(self.config, omega_conf_to_dataclass(model_config), self.replica_rank)
        self.servers = [server]
        self._server_handle = server
        self._server_address = name


class WeightSender(BaseRollout):
    """The side of the training worker: pushes its weights to the server of its rank."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.rank = int(os.environ.get("RANK", "0")) if replica_rank < 0 else replica_rank
        self.server: Any = None

    async def resume(self, tags: list[str]) -> None:
        """Nothing: weights stay in memory."""

    async def release(self) -> None:
        """Nothing: weights stay in memory."""

    @torch.no_grad()
    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        peft_config: Any = None,
        **_: Any,
    ) -> None:
        """Sends full tensors; `weights` is a generator that every rank must exhaust (collectives behind it).

        Raises: HarnessError for formats and adapters that the server does not know.
        """
        if wire_format != "named_tensors":
            raise HarnessError(
                f"checkpoint_engine sends {wire_format!r}: the CPU rollout server reads named tensors; "
                "set actor_rollout_ref.rollout.checkpoint_engine.backend=naive"
            )
        if peft_config is not None:
            raise HarnessError("lora_rank > 0: the CPU rollout server reads full weights; set model.lora_rank=0")
        state = {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in weights}
        if self.server is None:
            self.server = ray.get_actor(server_name(self.rank))
        await self.server.update_weights.remote(state, global_steps)
