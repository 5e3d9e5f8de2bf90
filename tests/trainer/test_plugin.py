from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import json, sys
import verl
from verl.trainer.ppo import core_algos
from verl.plugin.platform import PlatformRegistry
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry
import verl.utils.distributed as distributed
from harness.trainer import plugin
before = distributed.initialize_global_process_group_ray
plugin.register()
print(json.dumps({
    "estimator": "qae" in core_algos.ADV_ESTIMATOR_REGISTRY,
    "platform": PlatformRegistry.get("cpu") is not None,
    "adapter": ("hf_cpu", "async") in base._ROLLOUT_REGISTRY,
    "server": "hf_cpu" in RolloutReplicaRegistry._registry,
    "patched": hasattr(distributed.initialize_global_process_group_ray, "__harness_cpu__"),
    "patched_once": distributed.initialize_global_process_group_ray is before,
    "cpu_modules": sorted(name for name in sys.modules if name.startswith("harness.trainer.cpu")),
    "device": verl.utils.device.get_device_name(),
}))
"""


def registered(**variables: str) -> dict:
    """What `import verl` has registered in a fresh process, after registering once more by hand."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "HARNESS_"))}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    result = subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout.splitlines()[-1])


def test_importing_verl_registers_the_estimator_and_nothing_else():
    found = registered()
    assert found["estimator"]
    assert not any(found[name] for name in ("platform", "adapter", "server", "patched", "cpu_modules"))


def test_cpu_mode_is_registered_once_by_either_route():
    found = registered(VERL_PLATFORM="cpu", VERL_USE_EXTERNAL_MODULES="harness.trainer.plugin")
    assert all(found[name] for name in ("estimator", "platform", "adapter", "server", "patched", "patched_once"))
    assert found["device"] == "cpu"
    assert "harness.trainer.cpu.rollout" not in found["cpu_modules"]  # nothing heavy before it is needed
