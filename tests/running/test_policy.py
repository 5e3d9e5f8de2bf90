from __future__ import annotations

import pytest

from harness.running.policy import ANOTHER_NODE, REQUEUE, RULES, STOP, decide


def attempt(cause, start=0, step=5, nodes=("node1",), **more):
    return {"cause": cause, "from": start, "step": step, "nodes": list(nodes), **more}


def decided(*attempts, max_requeues=20, retry_nodes=2):
    return decide(attempts, max_requeues=max_requeues, retry_nodes=retry_nodes)


@pytest.mark.parametrize("cause", ["time limit", "preempted"])
def test_what_took_its_time_away_puts_a_run_back_into_the_queue(cause):
    assert decided(attempt(cause)).action == REQUEUE


@pytest.mark.parametrize(
    "cause",
    ["out of GPU memory", "out of host memory", "configuration", "data", "not a number", "cancelled", "no disk space",
     "unfinished", "unknown", ""],
)  # fmt: skip
def test_what_would_happen_again_stops(cause):
    assert cause not in RULES
    assert decided(attempt(cause)).action == STOP


@pytest.mark.parametrize("cause", ["node failure", "Ray start-up", "NCCL", "hang", "killed"])
def test_a_fault_of_the_node_is_tried_elsewhere_twice(cause):
    first = decided(attempt(cause))
    assert (first.action, first.exclude) == (ANOTHER_NODE, ("node1",))
    assert decided(attempt(cause), attempt("hang", nodes=["node2"])).exclude == ("node2",)
    last = decided(attempt(cause), attempt("preempted"), attempt("hang"), attempt(cause))
    assert (last.action, last.reason) == (STOP, f"{cause}: tried on another node 2 times already (cluster.retry_nodes)")


def test_of_several_nodes_only_a_named_one_is_left_out():
    assert decided(attempt("NCCL", nodes=["a", "b"])).exclude == ()
    assert decided(attempt("node failure", nodes=["a", "b"], bad=["b"])).exclude == ("b",)


def test_what_begins_afresh_is_not_given_the_same_time_again():
    decision = decide([attempt("time limit")], max_requeues=20, retry_nodes=2, resumes=False)
    assert (decision.action, "--time-limit" in decision.reason) == (STOP, True)
    assert decide([attempt("preempted")], max_requeues=20, retry_nodes=2, resumes=False).action == REQUEUE


def test_a_run_does_not_go_round_for_ever():
    assert decided(*[attempt("preempted")] * 3, max_requeues=2).action == STOP
    assert decided(*[attempt("preempted")] * 2, max_requeues=2).action == REQUEUE
    idle = attempt("time limit", start=5, step=5)
    assert decided(idle, idle).action == REQUEUE
    assert decided(idle, idle, idle).reason.endswith("raise cluster.time_limit")
    assert decided(idle, attempt("time limit", start=5, step=6), idle).action == REQUEUE
