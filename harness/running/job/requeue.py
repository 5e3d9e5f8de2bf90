"""Puts the job that we are in back into SLURM's queue, under the same id.

Not submitit's way: that one needs a pickle and a handler of its own, counts time-outs against a maximum, and cannot
keep a job away from a node.
"""

from __future__ import annotations

import logging
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from harness.running.job.allocation import Allocation
from harness.slurm import command
from harness.store import evidence
from harness.store.attempt import Ended

log = logging.getLogger(__name__)

_TRIES_SECONDS = 60.0
"""A slurmctld that is being restarted is back within this time, or the time limit ends the job anyway."""
_DEATH_SECONDS = 60.0
_FIELD = re.compile(r"(?:^|\s)(\w[\w:/-]*)=(\S*)")


def fields(text: str) -> dict[str, str]:
    """`scontrol show ...` as a mapping; the first value of a key counts."""
    found: dict[str, str] = {}
    for key, value in _FIELD.findall(text):
        found.setdefault(key, "" if value in ("(null)", "None", "N/A", "Unknown") else value)
    return found


def why(job: Mapping[str, str], warned: bool, words: str = "") -> Ended:
    """How an attempt that a signal ended is recorded.

    Args:
        job: SLURM's fields of the job, empty where it does not answer.
        warned: whether the signal was the one that comes ahead of a time limit or a preemption.
        words: what slurmstepd and srun wrote about the job.
    """
    found = evidence.classify(evidence.Traces(state=job.get("JobState", ""), words=words))
    if found.name in ("out of host memory", "node failure"):
        return Ended("failed", found.name, evidence.told(found))
    if found.name == "cancelled":
        return Ended("stopped", "cancelled", "cancelled")
    if job.get("PreemptTime"):
        return Ended("stopped", "preempted", "preempted: another job took its nodes")
    if warned:
        limit = job.get("TimeLimit", "")
        return Ended("stopped", "time limit", f"the time limit{f' of {limit}' if limit else ''} was near")
    return Ended("stopped", "", "asked to stop by a signal")


def show(job: str) -> dict[str, str]:
    """SLURM's fields of a job, empty where it does not answer."""
    try:
        return fields(command.run(["scontrol", "show", "job", job], timeout=10))
    except (command.Unavailable, command.Refused):
        return {}


def requeue(here: Allocation, exclude: Sequence[str], note: Callable[[Sequence[str]], None]) -> bool:
    """Puts the job back into the queue, away from these nodes; SLURM then ends this process.

    `note` is called with the nodes that are left out once it is certain that the job may go back: nothing can be
    written afterwards. Returns False where the job must not or cannot be queued again: it was cancelled meanwhile, has
    been queued again already, or was submitted with --no-requeue.
    """
    job = _ask(["scontrol", "show", "job", here.job])
    if job is None:
        return False
    told = fields(job)
    if told.get("JobState") != "RUNNING" or told.get("Restarts") != str(here.restart) or told.get("Requeue") == "0":
        log.warning("not queued again: %s, restarts %s", told.get("JobState"), told.get("Restarts"))
        return False
    away = _away(told, exclude, here.nodes)
    nodes = ",".join(sorted({*_names(told.get("ExcNodeList", "")), *away})) if away else ""
    note(away)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it comes at once, and there is one more thing to say
    if _ask(["scontrol", "requeue", here.job]) is None:
        return False
    if nodes:
        _ask(["scontrol", "update", f"JobId={here.job}", f"ExcNodeList={nodes}"])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(_DEATH_SECONDS)  # the batch script must not go on before SLURM has ended it
    return True


def _away(job: Mapping[str, str], exclude: Sequence[str], needed: int) -> tuple[str, ...]:
    """The nodes to leave out, none where too few would be left for the job to start ever again."""
    if not exclude:
        return ()
    partition = fields(_ask(["scontrol", "show", "partition", job.get("Partition", "").partition(",")[0]]) or "")
    total = partition.get("TotalNodes", "")
    gone = {*_names(job.get("ExcNodeList", "")), *exclude}
    if total.isdigit() and int(total) - len(gone) < needed:
        log.warning("%s not left out: too few other nodes", ",".join(exclude))
        return ()
    return tuple(exclude)


def _names(short: str) -> list[str]:
    """The nodes of a list such as `node[2,4-8]`."""
    return (_ask(["scontrol", "show", "hostnames", short]) or short).split() if short else []


def _ask(words: Sequence[str]) -> str | None:
    """Output of one of SLURM's programs; waits for a controller that is away for a moment."""
    deadline = time.monotonic() + _TRIES_SECONDS
    while True:
        try:
            return command.run(words, timeout=20)
        except command.Refused as error:
            log.warning("%s", error)
            return None
        except command.Unavailable as error:
            log.warning("%s", error)
            if time.monotonic() > deadline:
                return None
            time.sleep(2)
