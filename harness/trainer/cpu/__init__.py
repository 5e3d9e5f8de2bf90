"""Training on CPUs: a platform, a rollout server and two patches that verl 0.9.1 needs there.

Nothing in this package is imported unless VERL_PLATFORM=cpu (see `harness.trainer.plugin`).
"""

from __future__ import annotations

ROLLOUT = "hf_cpu"
"""The value of `actor_rollout_ref.rollout.name` for our rollout server."""


def install() -> None:
    """Makes the CPU mode known to the verl of this process. Safe to call again."""
    from verl.workers.rollout import base
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    from harness.trainer.cpu import patches, platform

    platform.register()
    patches.apply()
    # verl has no function to register an adapter (verl/workers/rollout/base.py); the server's loader is official.
    base._ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "harness.trainer.cpu.rollout.WeightSender"
    RolloutReplicaRegistry.register(ROLLOUT, _load_replica)


def _load_replica() -> type:
    from harness.trainer.cpu.rollout import Replica

    return Replica
