"""From a frozen spec to a running trainer: the config of an attempt, and verl's entry point with our trainer in it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer import main_ppo

from harness.trainer import environment, tracking
from harness.trainer.cpu import forkserver
from harness.trainer.environment import Attempt
from harness.trainer.options import TrainerSettings

STOCK_AGENT_LOOP = "single_turn_agent"
STOCK_MODE = "sync"
CPU_OBJECT_STORE_BYTES = 256 * 2**20


class TaskRunner(main_ppo.TaskRunnerV1.__ray_metadata__.modified_class):  # type: ignore[name-defined]
    """verl's task runner, in whose process our trainer is registered."""

    def run(self, config: DictConfig) -> None:
        """Trains; called once."""
        import harness.trainer.trainer  # noqa: F401  registers the trainer

        super().run(config)


class RemoteTaskRunner(TaskRunner):
    """The same in a Ray actor of its own, where W&B runs then."""

    def run(self, config: DictConfig) -> None:
        """Trains; a SIGTERM flushes W&B first."""
        signal.signal(signal.SIGTERM, _flush_and_exit)  # Ray runs a plain actor's methods in the main thread
        super().run(config)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Has the look of the Ray actor class that `run_ppo` makes a task runner of, once Ray is up."""

    local: bool
    """Run in this process: one process fewer to start (verl's imports alone take several seconds), and W&B is in the
    process that gets the signals."""
    after_start: Callable[[], None]
    """Called when Ray has started."""

    def remote(self) -> Launcher:
        """Called by run_ppo right after ray.init."""
        self.after_start()
        return self

    @property
    def run(self) -> Launched:
        """What run_ppo takes for the actor's method."""
        return Launched(self.local)


@dataclass(frozen=True, slots=True)
class Launched:
    """See Launcher."""

    local: bool
    """As in Launcher."""

    def remote(self, config: DictConfig) -> ray.ObjectRef:
        """Trains, or has the actor train; a reference that is ready at the end."""
        if self.local:
            TaskRunner().run(config)
            return ray.put(None)
        actor: Any = ray.remote(RemoteTaskRunner)
        return actor.remote().run.remote(config)


def train(config: DictConfig, after_start: Callable[[], None]) -> None:
    """Runs verl's `run_ppo` (verl/trainer/main_ppo.py) to the end.

    Args:
        config: see `build_config`.
        after_start: called when Ray has started, which replaces the process's signal handlers by its own.
    """
    main_ppo.auto_set_device(config)
    main_ppo.validate_config(
        config=config,
        use_reference_policy=main_ppo.need_reference_policy(config),
        use_critic=main_ppo.need_critic(config),
    )
    local = TrainerSettings.read(config.harness).trainer_in_driver
    with ExitStack() as starting:
        starting.enter_context(forkserver.ray_python())
        starting.callback(after_start)
        main_ppo.run_ppo(config, task_runner_class=Launcher(local, starting.close))


def _flush_and_exit(number: int, _: FrameType | None) -> None:
    tracking.finish_service()
    sys.exit(128 + number)


def build_config(spec: Mapping[str, Any], attempt: Attempt, ray_temp: Path) -> DictConfig:
    """verl's config for one attempt: the frozen one with what depends on the place where it runs.

    The frozen config names verl's own trainer and agent loop, so that stock verl can run it, too; ours replace them
    here. Other choices of the user, such as an agent loop with tools, stay.
    """
    # Imported late: it pulls in verl's agent loops, which the driver needs later anyway.
    from harness.trainer import agent_loop

    config = OmegaConf.create(dict(spec["verl"]))
    with open_dict(config):
        if config.trainer.v1.trainer_mode == STOCK_MODE:
            config.trainer.v1.trainer_mode = "harness"
        config.trainer.default_local_dir = str(attempt.run_dir / "checkpoints")
        for kept in ("validation_data_dir", "rollout_data_dir"):  # a relative folder is the run's own
            if config.trainer.get(kept):
                config.trainer[kept] = str(attempt.run_dir / config.trainer[kept])
        config.trainer.resume_mode = "auto"
        rollout = config.actor_rollout_ref.rollout
        agent = rollout.agent
        stock_loop = agent.default_agent_loop == STOCK_AGENT_LOOP and agent.agent_loop_config_path is None
        if stock_loop and rollout.name in agent_loop.SEEDED_ROLLOUTS:
            agent.default_agent_loop = agent_loop.NAME
            agent.agent_loop_config_path = str(agent_loop.CONFIG)
        config.harness = OmegaConf.merge(config.get("harness") or {}, _harness_node(attempt))
        ray_init = {"address": "local", "_temp_dir": str(environment.ray_folder(ray_temp)), "include_dashboard": False}
        if environment.on_cpu(spec["verl"]):
            ray_init["object_store_memory"] = CPU_OBJECT_STORE_BYTES
            if TrainerSettings.read(config.harness).batched_rollout:
                _batch_rollouts(config)
        config.ray_kwargs.ray_init = OmegaConf.merge(ray_init, config.ray_kwargs.ray_init)
    OmegaConf.set_struct(config, True)
    return config


def _batch_rollouts(config: DictConfig) -> None:
    """Agent loops and rewards in the trainer's process (`cpu.batched`), and a load balancer that has nothing to do."""
    from harness.trainer.cpu import batched, router

    config.actor_rollout_ref.rollout.agent.agent_loop_manager_class = batched.PATH
    config.actor_rollout_ref.rollout.router_config_path = str(router.CONFIG)
    config.reward.num_workers = 0


def _harness_node(attempt: Attempt) -> dict[str, Any]:
    return {
        "run_dir": str(attempt.run_dir),
        "run_id": attempt.run_id,
        "attempt": attempt.number,
        "stop_file": str(attempt.stop_file),
    }
