"""From a frozen spec to a running trainer: the config of an attempt, and verl's entry point with our trainer in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer import main_ppo

from harness.trainer import environment
from harness.trainer.environment import Attempt
from harness.trainer.settings import TrainerSettings

STOCK_AGENT_LOOP = "single_turn_agent"
STOCK_MODE = "sync"
CPU_OBJECT_STORE_BYTES = 256 * 2**20


class TaskRunner(main_ppo.TaskRunnerV1.__ray_metadata__.modified_class):  # type: ignore[name-defined]
    """verl's task runner, in whose process our trainer is registered."""

    def run(self, config: DictConfig) -> None:
        """Trains; called once."""
        import harness.trainer.trainer  # noqa: F401  registers the trainer

        super().run(config)


class LocalTaskRunner:
    """Has the look of a Ray actor class but runs in this process, which saves starting one more (verl's imports alone
    take several seconds) and puts W&B into the process that gets the signals."""

    class _Run:
        @staticmethod
        def remote(config: DictConfig) -> ray.ObjectRef:
            TaskRunner().run(config)
            return ray.put(None)

    run = _Run()

    @classmethod
    def remote(cls) -> LocalTaskRunner:
        return cls()


def train(config: DictConfig) -> None:
    """Runs verl's `run_ppo` (verl/trainer/main_ppo.py) to the end."""
    main_ppo.auto_set_device(config)
    main_ppo.validate_config(
        config=config,
        use_reference_policy=main_ppo.need_reference_policy(config),
        use_critic=main_ppo.need_critic(config),
    )
    local = TrainerSettings.read(config.harness).trainer_in_driver
    main_ppo.run_ppo(config, task_runner_class=LocalTaskRunner if local else ray.remote(TaskRunner))


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
        config.trainer.resume_mode = "auto"
        agent = config.actor_rollout_ref.rollout.agent
        if agent.default_agent_loop == STOCK_AGENT_LOOP and agent.agent_loop_config_path is None:
            agent.default_agent_loop = agent_loop.NAME
            agent.agent_loop_config_path = str(agent_loop.CONFIG)
        config.harness = OmegaConf.merge(config.get("harness") or {}, _harness_node(attempt))
        ray_init = {"address": "local", "_temp_dir": str(ray_temp), "include_dashboard": False}
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
