"""What verl loads in each of its processes: the estimator, and on request the CPU mode.

Two routes lead here (verl/__init__.py): the entry point group `verl.plugins`, so that `import verl` in this environment
is enough for anyone's own trainer, and VERL_USE_EXTERNAL_MODULES, which our runs use because a failing import is loud
there. A process that takes both loads the module once, and registering again changes nothing. Without
VERL_PLATFORM=cpu, that is on a GPU, nothing but the estimator is registered and no function of verl is replaced.
"""

from __future__ import annotations

import os

from harness.trainer import advantage

MODULE = "harness.trainer.plugin"
"""The name for VERL_USE_EXTERNAL_MODULES."""


def cpu_mode() -> bool:
    """Whether this process was told to train on CPUs; the variable is the one that verl's platform layer reads."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"


def register() -> None:
    """Registers what this process needs. Safe to call again."""
    advantage.register()
    if cpu_mode():
        from harness.trainer import cpu

        cpu.install()


register()
