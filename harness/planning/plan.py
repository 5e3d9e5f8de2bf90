"""What applying a sweep would do: pure decisions, nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.config import reference
from harness.config.compose import Composed, compose
from harness.config.grid import Sweep
from harness.config.typed import to_plain
from harness.errors import HarnessError
from harness.planning.signature import run_id, signature
from harness.store.runs import RunState, Store


@dataclass(frozen=True, slots=True)
class Planned:
    """One grid point, composed, with what is to be done about it."""

    id: str
    composed: Composed
    signature: Mapping[str, Any]
    varied: tuple[str, ...]
    action: str
    """`add` (never started), `keep` (done, running or queued), `retry` (stopped or failed), `same` (another's run)."""
    reason: str
    state: RunState

    @property
    def label(self) -> str:
        """For people, such as `QAE K=0.4, tiny, seed 1`."""
        return self.composed.settings.label


States = Callable[[Sequence[str]], Mapping[str, RunState]]
"""The states of runs by id: what the files say, or SLURM with them (harness.slurm.live.states)."""


def plan(sweep: Sweep, store: Store, root: Path, states: States) -> list[Planned]:
    """The plan of a sweep, one entry a grid point, in the file's order.

    Raises: HarnessError for the first point that does not compose, naming the sweep and the point.
    """
    composed_points: list[tuple[Composed, dict[str, Any], tuple[str, ...]]] = []
    for point in sweep.points:
        try:
            composed = compose(point.overrides)
            sig = signature(composed, root)
        except HarnessError as error:
            raise HarnessError(f"sweep {sweep.name}, point {' '.join(point.varied)}: {error}") from None
        composed_points.append((composed, sig, point.varied))
    ids = [run_id(sig) for _, sig, _ in composed_points]
    seen = states(ids)
    entries: list[Planned] = []
    first: dict[str, Planned] = {}
    for run, (composed, sig, varied) in zip(ids, composed_points, strict=True):
        if run in first:
            entry = Planned(run, composed, sig, varied, "same", _twin(first[run], composed), first[run].state)
        else:
            action, reason = decide(seen[run])
            if seen[run].kind == "done" and (lost := store.lost_result(run)):
                raise HarnessError(
                    f"{lost} is missing or damaged, although the run was done: restore it, or move "
                    f"{store.folder(run)} away to start afresh"
                )
            entry = first[run] = Planned(run, composed, sig, varied, action, reason, seen[run])
        entries.append(entry)
    return entries


def refreshed(entries: Sequence[Planned], states: States) -> list[Planned]:
    """The same plan by the state of things now.

    What was to be started may have been started by others since; what was unknown, such as a submission whose submitter
    was killed, may have been settled.
    """
    seen = states([entry.id for entry in entries])
    fresh = []
    for entry in entries:
        state = seen[entry.id]
        open_ = entry.action in ("add", "retry") or entry.action == "keep" and entry.state.kind == "unknown"
        action, reason = decide(state) if open_ else (entry.action, entry.reason)
        fresh.append(replace(entry, state=state, action=action, reason=reason))
    return fresh


def decide(state: RunState) -> tuple[str, str]:
    """(action, reason) for a run in this state."""
    if state.kind == "absent":
        return "add", "new"
    if state.kind == "new":
        return "add", "frozen, never started"
    if state.kind == "done":
        return "keep", f"done, {state.step} of {state.total} steps"
    if state.kind == "running":
        return "keep", f"running: {state.reason}"
    if state.kind == "queued":
        return "keep", f"queued: {state.reason}"
    if state.kind == "unknown":
        return "keep", f"unknown: {state.reason}; `harness retry {state.id}` submits it again"
    if state.kind == "stopped":
        return "retry", state.reason
    if state.kind == "failed":
        return "retry", f"failed: {state.reason}"
    raise HarnessError(f"run {state.id}: unknown state {state.kind!r}; update the harness")


def _twin(first: Planned, composed: Composed) -> str:
    group = composed.settings.recipe.group_size
    rank = composed.settings.baseline.rank(group)
    mine, other = composed.settings.baseline.K, first.composed.settings.baseline.K
    if rank is not None and mine != other:
        return f"the same experiment as K={other:g}: both have rank {rank} of {group} (only ceil(K*G) matters)"
    return "the same run as a point above"


def check_compared(sweep: Sweep, entries: Sequence[Planned], extra: Sequence[str] = ()) -> None:
    """Raises: HarnessError where the sweep file compares with an arm that the sweep does not have.

    `extra` overrides win over the file: where they choose another baseline, the file's comparison means nothing.
    """
    against = sweep.compare.get("against")
    if against is None or any(text.startswith("baseline") for text in extra):
        return
    if isinstance(against, str) and against in {entry.composed.settings.baseline.name for entry in entries}:
        return
    import pandas as pd  # labels are the report's matter, and need it; most files name a baseline

    from analysis.comparison import arms
    from analysis.run import Run

    nothing = pd.DataFrame({"step": pd.Series(dtype="int64")})
    configs = [
        {**to_plain(e.composed.settings), "verl": reference.merged(e.composed.asked)} for e in entries
    ]  # as in their specs
    runs = [
        Run(id=e.id, label=e.label, source="harness", history=nothing, config=config)
        for e, config in zip(entries, configs, strict=True)
    ]
    try:
        arms.require(arms.group(runs), against)
    except HarnessError as error:
        raise HarnessError(f"{sweep.file.name}: compare.{error}") from None


def todo(entries: Sequence[Planned]) -> list[Planned]:
    """The entries whose runs are to be started, in order."""
    return [e for e in entries if e.action in ("add", "retry")]


def summary(entries: Sequence[Planned]) -> str:
    """One line such as `2 to add, 1 to keep`."""
    counts = {action: sum(e.action == action for e in entries) for action in ("add", "retry", "keep", "same")}
    names = {"add": "to add", "retry": "to retry", "keep": "to keep", "same": "the same as another"}
    return ", ".join(f"{n} {names[action]}" for action, n in counts.items() if n) or "nothing to do"
