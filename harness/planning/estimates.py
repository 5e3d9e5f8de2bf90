"""What a plan would take: memory against the GPUs' own, and GPU-hours. Estimates, and marked as such."""

from __future__ import annotations

from collections.abc import Sequence

from harness.config import reference
from harness.config.grid import Sweep
from harness.errors import HarnessError
from harness.planning import forecast, gpu_memory
from harness.planning.plan import Planned, todo
from harness.store.runs import Store


def lines(entries: Sequence[Planned], store: Store | None = None) -> list[str]:
    """For each model and layout of a plan its memory, then the hours of what is to be started; nothing on a CPU."""
    told: dict[str, None] = {}
    layouts = {_layout(entry): entry for entry in entries if entry.composed.settings.platform == "cuda"}
    for entry in layouts.values():
        settings, verl = entry.composed.settings, _config(entry)
        result = gpu_memory.estimate(settings, verl)
        if result is not None:
            told[gpu_memory.told(settings.model.name, gpu_memory.layout(settings, verl), result)] = None
    hours = forecast.forecast(entries, store)
    ahead = {entry.id: hours[entry.id] for entry in todo(entries) if entry.id in hours}
    if ahead:
        total = sum(h.value for h in ahead.values())
        sources = "; ".join(_SOURCES[source] for source in _SOURCES if any(h.source == source for h in ahead.values()))
        told[f"to start: about {total:,.0f} GPU-hours ({sources})"] = None
    return list(told)


def _layout(entry: Planned) -> tuple[object, ...]:
    """Runs that agree in this take equal memory: a grid has a handful of layouts, and an estimate takes 1 ms."""
    settings = entry.composed.settings
    node = reference.flat_items(entry.composed.asked.get("actor_rollout_ref", {}))
    rest = tuple((key, str(value)) for key, value in node if not key.endswith("seed"))
    return settings.model, settings.recipe, settings.data, rest


_SOURCES = {
    forecast.MEASURED: "measured: step times of such runs",
    forecast.ESTIMATED: "estimate, not measured; assumptions in harness/planning/gpu_hours.py",
    forecast.LIMIT: "time limit: one of each run, at most",
}


def gpu_hours(entries: Sequence[Planned], store: Store | None = None) -> float:
    """Hours that all distinct runs of these entries still need together."""
    return sum(h.value for h in forecast.forecast(entries, store).values())


def points(entries: Sequence[Planned], store: Store | None = None) -> dict[str, str]:
    """Run -> such as `38.2 GPU-h`, for the runs that need any."""
    return {run: f"{h.value:,.1f} GPU-h" for run, h in forecast.forecast(entries, store).items() if h.value}


def check_budget(sweep: Sweep, entries: Sequence[Planned], store: Store | None = None) -> None:
    """Raises: HarnessError where the sweep would cost more than its budget: what it used, what runs or is queued, and
    what is to be started."""
    if sweep.budget_gpu_hours is None or not todo(entries):
        return
    hours = forecast.forecast(entries, store)
    start = sum(hours[run].value for run in {entry.id for entry in todo(entries)} if run in hours)
    going = {entry.id for entry in entries if entry.state.kind in ("running", "queued", "unknown")}
    more = sum(hours[run].value for run in going if run in hours)
    spent = forecast.used(entries, store) if store is not None else 0.0
    if start + more + spent > sweep.budget_gpu_hours:
        rest = f", {more:,.0f} are queued or running" if more else ""
        rest += f", {spent:,.0f} are used" if spent else ""
        how = "/".join(sorted({hours[e.id].source for e in todo(entries) if e.id in hours}))
        raise HarnessError(
            f"{sweep.file.name}: budget_gpu_hours={sweep.budget_gpu_hours:g}: what is to be started takes about "
            f"{start:,.0f} GPU-hours ({how}){rest}; raise the budget, or ask for fewer points, seeds or steps"
        )


def _config(entry: Planned) -> dict[str, object]:
    # Interpolations stay unresolved: none of the keys that the estimates read has one.
    return reference.laid_over(reference.load(), entry.composed.asked)
