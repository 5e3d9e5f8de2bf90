"""The live jobs: one squeue call for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.slurm import command

_FORMAT = "%A|%F|%K|%T|%r|%M|%L|%N|%j|%u|%q|%a|%P"
_INDICES = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
WAITING = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "CONFIGURING", "RESV_DEL_HOLD"}
)
ON_NODES = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
"""Other states of squeue are ends: a job stays listed for MinJobAge seconds after it."""


@dataclass(frozen=True, slots=True)
class Job:
    """One task of a job array, as squeue shows it."""

    id: str
    """`1234_3`: array and index; `1234` where it is no array."""
    state: str
    """SLURM's word, such as PENDING or RUNNING."""
    reason: str
    """Why it waits, such as Priority, Resources or QOSMaxGRESPerUser."""
    elapsed: int
    """Seconds that this attempt has run."""
    left: int | None
    """Seconds until its time limit, None without one."""
    nodes: str
    """SLURM's short form, such as `node[1-2]`."""
    name: str
    """Job name; it ends with the submission's key."""
    user: str
    qos: str = ""
    account: str = ""
    partition: str = ""

    @property
    def live(self) -> bool:
        """Whether it waits or works; False once it has ended."""
        return self.state in WAITING or self.state in ON_NODES


@dataclass(frozen=True, slots=True)
class Queue:
    """What squeue said at one moment; `answered` is False where it gave no answer, which proves nothing."""

    jobs: Mapping[str, Job]
    answered: bool = True
    trouble: str = ""
    """Why it gave no answer."""

    def task(self, job: str | None) -> Job | None:
        """The job as squeue lists it: tasks of an array that was cancelled while it waited are one row of no index."""
        found = self.jobs.get(job or "")
        if found is None and job and (whole := self.jobs.get(job.partition("_")[0])) is not None and not whole.live:
            return whole
        return found

    def named(self, name: str) -> list[Job]:
        """The tasks of one submission."""
        return [job for job in self.jobs.values() if job.name == name]


NONE = Queue({}, answered=False, trouble="not asked")


def ask(users: Iterable[str] = (), *, name: str = "") -> Queue:
    """Asks squeue once, for the jobs of some users or of one name.

    Never by job id: squeue fails as a whole where it has forgotten one of them. Where SLURM is away nothing is raised:
    the answer says so.
    """
    narrow = ([f"--user={','.join(sorted(users))}"] if users else []) + ([f"--name={name}"] if name else [])
    try:
        text = command.run(["squeue", "--noheader", "--array", "--states=all", f"--format={_FORMAT}", *narrow])
    except (command.Unavailable, command.Refused) as error:
        return Queue({}, answered=False, trouble=str(error))
    jobs = parse(text)
    if text.strip() and not jobs:
        return Queue({}, answered=False, trouble=f"squeue answered {text.strip().splitlines()[0][:80]!r}, no table")
    return Queue({job.id: job for job in jobs})


def parse(text: str) -> list[Job]:
    """The tasks in squeue's output of our format; lines that are not ours are skipped."""
    found = []
    for line in text.splitlines():
        fields = line.rstrip("\n").split("|")
        if len(fields) != 13:
            continue
        raw, array, index, state, reason, elapsed, left, nodes, name, user, *rest = (f.strip() for f in fields)
        array = array or raw
        for number in _indices(index):
            job = Job(
                array if number is None else f"{array}_{number}", state, "" if reason == "None" else reason,
                seconds(elapsed) or 0, seconds(left), nodes, name, user, *rest,
            )  # fmt: skip
            found.append(job)
    return found


def _indices(text: str) -> list[int | None]:
    """`3` is one task; `[0-4,7%2]` several that have not been split off yet; N/A is no array."""
    bare = text.strip("[]").partition("%")[0]
    if not bare or not bare[0].isdigit():
        return [None]
    found: list[int | None] = []
    for part in bare.split(","):
        match = _INDICES.fullmatch(part)
        if match:
            first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            found += list(range(first, last + 1, step))
    return found or [None]


def seconds(text: str) -> int | None:
    """Seconds of SLURM's D-HH:MM:SS, HH:MM:SS or MM:SS; None for UNLIMITED, INVALID and the like."""
    days, _, rest = text.rpartition("-")
    try:
        parts = [int(part) for part in rest.split(":")]
        total = 86400 * int(days or 0)
    except ValueError:
        return None
    for part, unit in zip(reversed(parts), (1, 60, 3600), strict=False):
        total += part * unit
    return total
