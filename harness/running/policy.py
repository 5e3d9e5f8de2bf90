"""What is done after an attempt that did not finish: pure decisions over the attempts so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REQUEUE, ANOTHER_NODE, STOP = "requeue", "another node", "stop"

RULES: Mapping[str, str] = {
    "time limit": REQUEUE,
    "preempted": REQUEUE,
    "node failure": ANOTHER_NODE,
    "Ray start-up": ANOTHER_NODE,
    "NCCL": ANOTHER_NODE,
    "hang": ANOTHER_NODE,
    "killed": ANOTHER_NODE,
}
"""By class of `harness.store.evidence`. What is not here would fail again in the same way: a person must look."""
_IDLE = 3
"""So many attempts in a row without one finished step: the next one would not finish any, either."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next."""

    action: str
    """`requeue`, `another node` (requeue without the nodes in `exclude`) or `stop`."""
    reason: str
    """For people."""
    exclude: tuple[str, ...] = ()
    """Nodes that the run is kept away from."""


def decide(
    attempts: Sequence[Mapping[str, Any]], *, max_requeues: int, retry_nodes: int, resumes: bool = True
) -> Decision:
    """What follows the last of these attempts, which is not done.

    Args:
        attempts: the records runs/<id>/attempts/*/attempt.json, oldest first, not empty. Used: `cause`, `from` and
            `step` (training steps before and after), `nodes`, `bad` (the nodes at fault, where known).
        max_requeues: how often a run may go back to the queue by itself.
        retry_nodes: how often it may be tried on another node after a fault.
        resumes: whether the next attempt goes on where this one stopped; an evaluation begins afresh.
    """
    last = attempts[-1]
    cause = str(last.get("cause", ""))
    action = RULES.get(cause, STOP)
    if action == STOP:
        return Decision(STOP, f"{cause or 'unknown'}: trying again would not help")
    if cause == "time limit" and not resumes:
        return Decision(STOP, "time limit: the evaluation would begin afresh; ask again with a longer --time-limit")
    requeued = sum(RULES.get(str(a.get("cause", "")), STOP) != STOP for a in attempts)
    if requeued > max_requeues:
        return Decision(STOP, f"{cause}: queued again {max_requeues} times already (cluster.max_requeues)")
    if action == ANOTHER_NODE:
        faults = sum(RULES.get(str(a.get("cause", ""))) == ANOTHER_NODE for a in attempts)
        if faults > retry_nodes:
            return Decision(STOP, f"{cause}: tried on another node {retry_nodes} times already (cluster.retry_nodes)")
        return Decision(ANOTHER_NODE, cause, at_fault(last))
    idle = [a for a in attempts[-_IDLE:] if int(a.get("step", 0)) <= int(a.get("from", 0))]
    if cause == "time limit" and len(idle) == _IDLE:
        return Decision(STOP, f"time limit: {_IDLE} attempts in a row finished no step; raise cluster.time_limit")
    return Decision(REQUEUE, cause)


def at_fault(attempt: Mapping[str, Any]) -> tuple[str, ...]:
    """The nodes that an attempt was let down by: those named, else its only node, else none of several."""
    named = tuple(str(node) for node in attempt.get("bad", ()))
    nodes = tuple(str(node) for node in attempt.get("nodes", ()))
    return named or (nodes if len(nodes) == 1 else ())
