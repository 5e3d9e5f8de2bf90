"""The nodes of a job as one: the leading node brings Ray up and tells the others, which join and leave with it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from harness.running.job import oom_kills
from harness.running.job.allocation import Allocation, address
from harness.running.job.ray_node import RayNode
from harness.running.job.rendezvous import Meeting
from harness.store import evidence
from harness.store.attempt import Around, Ended, NotReady
from harness.store.runs import Store
from harness.trainer import environment as trainer_environment
from harness.trainer import joined
from harness.trainer.environment import Attempt

RAY_TRAINER = "harness.trainer.main"
JOIN_SECONDS = 300.0
"""For Ray to come up on all nodes: importing it from a busy shared file system takes its time."""
_LEAVE_SECONDS = 15.0
_SETTLE_SECONDS = 6.0
"""`ray start --block` looks after its processes once a second, the other nodes' reports come on top."""
_POLL_SECONDS = 0.25


def uses_ray(spec: Mapping[str, Any]) -> bool:
    """Whether the trainer of a run needs Ray around it."""
    return bool(spec.get("ray", spec["trainer"] == RAY_TRAINER))


@dataclass(frozen=True, slots=True)
class Leader:
    """Rank 0: brings up what an attempt needs on all nodes."""

    spec: Mapping[str, Any]
    here: Allocation
    meeting: Meeting
    names: tuple[str, ...]
    stopped: Callable[[], Ended | None]
    """How the attempt is recorded where it was asked to stop, None where it was not."""

    @contextlib.contextmanager
    def around(self, folder: Path) -> Iterator[Around]:
        """See `harness.store.attempt.Surroundings`; the same for one node and for many."""
        attempt = Attempt(run_dir=folder.parent.parent, run_id=str(self.spec["id"]), number=int(folder.name))
        others = range(1, self.here.nodes)
        ray = None
        kills = oom_kills.kills()
        self.meeting.clear_others()
        try:
            if uses_ray(self.spec):
                own = address(self.here.node, self.names[1:])
                ray = up = RayNode(self.spec, attempt, own=own, cpus=self.here.cpus, rank=0)
                head = self._until(up, up.joined)
                token = trainer_environment.token_file(up.temp).read_text()
                self.meeting.say("head.json", {"attempt": attempt.number, "address": head, "token": token})
                self._until(up, lambda: {f"joined.{rank}" for rank in others} <= self.meeting.names())
                variables = joined.Cluster(address=head, node=own, temp=up.temp).variables()
            else:
                self.meeting.say("head.json", {"attempt": attempt.number, "address": ""})
                variables = {}
            yield Around(variables, lambda settle: self._fault(ray, settle, kills))
        finally:
            self.meeting.say("stop")
            if ray is not None:
                ray.end()
            self.meeting.wait_for({f"left.{rank}" for rank in others}, _LEAVE_SECONDS)

    def _until(self, ray: RayNode, ready: Callable[[], Any]) -> Any:
        """Waits for a truthy answer. Raises: NotReady where Ray fails, does not come up in time, or we must stop."""
        deadline = time.monotonic() + JOIN_SECONDS
        while not (answer := ready()):
            if (ended := self.stopped()) is not None:
                raise NotReady(ended)
            if (broken := self._fault(ray, False)) is not None:
                cause = "Ray start-up" if broken.cause == "node failure" else broken.cause
                raise NotReady(Ended("failed", cause, broken.reason, broken.nodes))
            if time.monotonic() > deadline:
                missing = [n for r, n in enumerate(self.names) if r and f"joined.{r}" not in self.meeting.names()]
                late = ", ".join(missing) if ray.joined() else self.here.node
                text = f"Ray start-up: {late} did not come up in {JOIN_SECONDS:g} s; see {ray.attempt}/ray.*.log"
                raise NotReady(Ended("failed", "Ray start-up", text, tuple(missing) or (self.here.node,)))
            time.sleep(_POLL_SECONDS)
        return answer

    def _fault(self, ray: RayNode | None, settle: bool, kills: int = 0) -> Ended | None:
        deadline = time.monotonic() + (_SETTLE_SECONDS if settle and ray is not None else 0.0)
        while True:
            for failure in self.meeting.failures():
                return Ended("failed", failure["cause"], failure["reason"], (failure["node"],))
            killed = oom_kills.kills() - kills if settle else 0
            if killed > 0 or (ray is not None and ray.ended()):
                report = _starved(killed, self.here) if killed > 0 or ray is None else _report(ray, self.here)
                return Ended("failed", report["cause"], report["reason"], (self.here.node,))
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_SECONDS)


def _starved(killed: int, here: Allocation) -> dict[str, Any]:
    cause = "out of host memory"
    what = "a process" if killed == 1 else f"{killed} processes"
    reason = evidence.told(evidence.Cause(cause, f"{cause}: the kernel killed {what} of the job on {here.node}"))
    return {"node": here.node, "cause": cause, "reason": reason}


def _report(ray: RayNode, here: Allocation) -> dict[str, Any]:
    found = evidence.cause(evidence.tail(ray.log), ray.process.returncode)
    known = found.name if found.name not in ("unknown", "killed") else "node failure"
    reason = f"{known}: Ray on {here.node} ended with exit code {ray.process.returncode}; see {ray.log}"
    return {"node": here.node, "cause": known, "reason": reason}


def follow(run_folder: Path, here: Allocation) -> int:
    """Every other rank: joins, reports, and leaves when told, when the job is cancelled, or when its Ray dies.

    Returns the exit code. It is not 0 only where the leading node did not react: srun would end that one before it
    could record the cause.
    """
    told: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        told.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # the leading node saves for all
    meeting = Meeting.of(run_folder, here.number, here.restart)

    def over() -> bool:
        return bool(told) or "stop" in meeting.names()

    head = None
    while head is None and not over():
        head = meeting.read("head.json")
        time.sleep(_POLL_SECONDS)
    code = 0
    if head is not None and head["address"]:
        code = _take_part(run_folder, here, meeting, head, over)
    while not over():
        time.sleep(_POLL_SECONDS)
    meeting.say(f"left.{here.rank}")
    return code


def _take_part(
    run_folder: Path, here: Allocation, meeting: Meeting, head: Mapping[str, Any], over: Callable[[], bool]
) -> int:
    store, run = Store.holding(run_folder)
    spec = store.spec(run)
    attempt = Attempt(run_dir=run_folder, run_id=str(spec["id"]), number=int(head["attempt"]))
    own = address(here.node, tuple(here.names()))
    ray = RayNode(
        spec, attempt, own=own, cpus=here.cpus, rank=here.rank, head=str(head["address"]), token=str(head["token"])
    )  # fmt: skip
    told = False
    kills = oom_kills.kills()
    try:
        while not over():
            if (killed := oom_kills.kills() - kills) > 0:
                meeting.say(f"failed.{here.rank}", _starved(killed, here))
                return 0 if _wait(over, 2 * _LEAVE_SECONDS) else 1
            if not told and ray.joined():
                meeting.say(f"joined.{here.rank}")
                told = True
            if ray.ended():
                meeting.say(f"failed.{here.rank}", _report(ray, here))
                return 0 if _wait(over, 2 * _LEAVE_SECONDS) else 1
            time.sleep(_POLL_SECONDS)
        return 0
    finally:
        ray.end()


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
