"""What a plan would take: memory against the GPUs' own, and GPU-hours. Estimates, and marked as such."""

from __future__ import annotations

from collections.abc import Sequence

from harness import cost, memory, reference
from harness.errors import HarnessError
from harness.plan import Planned, todo
from harness.sweep import Sweep


def lines(entries: Sequence[Planned]) -> list[str]:
    """For each model and layout of a plan its memory, then the hours of what is to be started; nothing on a CPU."""
    told: dict[str, None] = {}
    for entry in entries:
        settings, verl = entry.composed.settings, _config(entry)
        result = memory.estimate(settings, verl)
        if result is not None:
            told[memory.told(settings.model.name, memory.layout(settings, verl), result)] = None
    hours = gpu_hours(todo(entries))
    if hours:
        told[f"to start: about {hours:,.0f} GPU-hours (estimate, not measured; assumptions in harness/cost.py)"] = None
    return list(told)


def gpu_hours(entries: Sequence[Planned]) -> float:
    """Estimated hours of all distinct runs of these entries together."""
    runs = {entry.id: entry for entry in entries}
    return sum(cost.gpu_hours(entry.composed.settings, _config(entry)) for entry in runs.values())


def check_budget(sweep: Sweep, entries: Sequence[Planned]) -> None:
    """Raises: HarnessError where what is to be started costs more than the sweep's budget."""
    hours = gpu_hours(todo(entries))
    if sweep.budget_gpu_hours is not None and hours > sweep.budget_gpu_hours:
        raise HarnessError(
            f"{sweep.file.name}: budget_gpu_hours={sweep.budget_gpu_hours:g}: what is to be started takes about "
            f"{hours:,.0f} GPU-hours (estimate); raise the budget, or ask for fewer points, seeds or steps"
        )


def _config(entry: Planned) -> dict[str, object]:
    # Interpolations stay unresolved: none of the keys that the estimates read has one, and resolving costs 50 ms a run.
    return reference.laid_over(reference.load(), entry.composed.asked)
