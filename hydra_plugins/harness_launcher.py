"""Hydra's way in: `hydra/launcher=harness` hands a multirun to the harness's own plan, store and submission.

Hydra finds this module by its place in the namespace `hydra_plugins`; the work is done in harness.commands.multirun.
"""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

# A plain mapping: Hydra executes this file outside sys.modules, where dataclasses with late annotations cannot be made.
_SETTINGS = {"_target_": "hydra_plugins.harness_launcher.HarnessLauncher", "wait": False, "sweep": None}
ConfigStore.instance().store(group="hydra/launcher", name="harness", node=_SETTINGS, provider="harness")


class HarnessLauncher(Launcher):
    """Plans the whole batch, starts what is missing, and never raises for a run that was lost.

    `wait`: wait until every run has ended; by default the command ends once all are queued or, here, started. `sweep`:
    the name under which status and report know the runs; None makes one from the runs.
    """

    def __init__(self, wait: bool = False, sweep: str | None = None) -> None:
        self._wait = wait
        self._sweep = sweep

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Nothing of Hydra's is needed: runs are composed by the harness, once, before they are submitted."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """One JobReturn a job, always COMPLETED: its value is a harness.commands.multirun.Result."""
        from harness.commands import multirun

        return multirun.launch(job_overrides, wait=self._wait, sweep=self._sweep)
