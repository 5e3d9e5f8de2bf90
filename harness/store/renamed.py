"""Names of modules that earlier versions froze into specs, and what they are called now.

A frozen spec names modules: what prepares the built-in task, what an evaluation ends with, verl's reward function. A
spec that is read here speaks of today's modules, whenever it was written. The other way round, a reward function of
ours enters a signature under the name that it had first: a file that moves is no new experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MODULES = {"harness.task": "harness.tasks.builtin", "harness.merge": "harness.running.merge"}
REWARDS = {
    "pkg://harness.task.reward": "pkg://harness.tasks.builtin.reward",
    "pkg://harness.scoring.reward": "pkg://harness.tasks.scoring.reward",
}
_FIRST = {now: first for first, now in REWARDS.items()}


def current(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with today's names of modules. What is damaged is left for the reader to find."""
    found = dict(spec)
    if isinstance(steps := found.get("prepare"), list):
        found["prepare"] = [[_today(step[0], MODULES), *step[1:]] if _is_step(step) else step for step in steps]
    if isinstance(modules := found.get("finish"), list):
        found["finish"] = [_today(module, MODULES) for module in modules]
    verl = found.get("verl")
    reward = verl.get("reward") if isinstance(verl, Mapping) else None
    function = reward.get("custom_reward_function") if isinstance(reward, Mapping) else None
    if isinstance(verl, Mapping) and isinstance(reward, Mapping) and isinstance(function, Mapping):
        renamed = {**function, "path": _today(function.get("path"), REWARDS)}
        found["verl"] = {**verl, "reward": {**reward, "custom_reward_function": renamed}}
    return found


def identity(path: str) -> str:
    """The name under which a reward function of a package enters signatures."""
    return _FIRST.get(path, path)


def _today(name: Any, names: Mapping[str, str]) -> Any:
    return names.get(name, name) if isinstance(name, str) else name


def _is_step(step: object) -> bool:
    return isinstance(step, list) and bool(step)
