"""How much SLURM lets one user submit at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from harness.config.cluster import Cluster
from harness.slurm import command, partitions, queue

DEFAULT_ARRAY = 1001
"""SLURM's own default of MaxArraySize."""
_CLUSTER = "MaxJobCount of the cluster"


class Place(NamedTuple):
    """What a job is counted under."""

    qos: str
    account: str
    partition: str


def place(job: queue.Job) -> Place:
    """Of a job in the queue."""
    return Place(job.qos, job.account, job.partition)


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit; '' in a scope counts all jobs of the user."""

    most: int
    """Jobs at once; every task of an array is one."""
    source: str
    """Its name, for people."""
    qos: str = ""
    account: str = ""
    partition: str = ""

    def left(self, used: Iterable[Place]) -> int:
        """How many more may be submitted."""
        return max(0, self.most - sum(self._counts(one) for one in used))

    def _counts(self, one: Place) -> bool:
        return (
            (not self.qos or one.qos == self.qos)
            and (not self.account or one.account == self.account)
            and (not self.partition or self.partition in one.partition.split(","))
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """What was found for one kind of job."""

    array_size: int
    """Tasks of one array, at most (MaxArraySize counts from 0, so its last index is one less)."""
    bounds: tuple[Bound, ...]
    place: Place
    """What such a job would be counted under; '' where that is not known."""
    trouble: str = ""
    """Why more limits may exist than were found."""

    def room(self, used: Iterable[Place]) -> tuple[int, str] | None:
        """(how many more may be submitted beside these jobs, the limit that says so), None without a limit."""
        used = list(used)
        return min(((bound.left(used), bound.source) for bound in self.bounds), default=None)

    def tightest(self) -> Bound | None:
        """The smallest limit."""
        return min(self.bounds, key=lambda bound: bound.most, default=None)


def ask(user: str, account: str | None, qos: str | None, partition: str | None) -> Limits:
    """Asks scontrol and, where limits are enforced, sacctmgr.

    Raises: command.Unavailable or command.Refused without scontrol.
    """
    config = settings(command.run(["scontrol", "show", "config"]))
    size = max(1, int(config.get("MaxArraySize", DEFAULT_ARRAY)) - 1)
    bounds = [Bound(int(config["MaxJobCount"]), _CLUSTER)] if config.get("MaxJobCount", "").isdigit() else []
    where = Place(qos or "", account or "", partition or "")
    if not re.search("limits|qos|safe", config.get("AccountingStorageEnforce", "none")):
        return Limits(size, tuple(bounds), where)  # what sacctmgr says is not enforced
    try:
        known = partitions.ask()
        names = partitions.wanted(partition, known)
        found = associations(_sacctmgr("user", user, _ASSOCIATION), account, names)
        bounds += found.bounds
        where = Place(qos or found.qos, found.account, ",".join(names))
        scopes = {where.qos: ""} if where.qos else {}
        scopes |= {partitions.qos(known[name]): name for name in names if name in known and partitions.qos(known[name])}
        if scopes:
            bounds += _of_qos(_sacctmgr("qos", ",".join(scopes), _QOS), scopes)
    except (command.Unavailable, command.Refused) as error:
        return Limits(size, tuple(bounds), where, str(error))
    return Limits(size, tuple(bounds), where)


def settings(text: str) -> dict[str, str]:
    """`scontrol show config` as a mapping."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


_ASSOCIATION = ("DefaultAccount", "Account", "Partition", "MaxSubmitJobs", "GrpSubmitJobs", "DefaultQOS")
_QOS = ("Name", "MaxSubmitJobsPU", "MaxSubmitJobsPA", "GrpSubmitJobs")


def _sacctmgr(what: str, name: str, fields: tuple[str, ...]) -> list[list[str]]:
    more = ["withassoc"] if what == "user" else []
    text = command.run(
        ["sacctmgr", "--noheader", "--parsable2", "show", what, *([name] if name else []), *more,
         f"format={','.join(fields)}"]
    )  # fmt: skip
    rows = [line.split("|") for line in text.splitlines()]
    return [row for row in rows if len(row) == len(fields)]


class Accounts(NamedTuple):
    """A user's accounts."""

    names: list[str]
    default: str


def accounts(user: str) -> Accounts:
    """Raises: command.Unavailable or command.Refused where accounting does not answer."""
    rows = _sacctmgr("user", user, _ASSOCIATION)
    return Accounts(sorted({row[1] for row in rows if row[1]}), rows[0][0] if rows else "")


class Longest(NamedTuple):
    """How long a QOS lets a job run."""

    name: str
    text: str
    """In SLURM's words, '' without a limit."""


def longest() -> dict[str, Longest]:
    """Every QOS by name. Raises: command.Unavailable or command.Refused where accounting does not answer."""
    return {name: Longest(name, text) for name, text in _sacctmgr("qos", "", ("Name", "MaxWall"))}


def too_long(qos: Longest, cluster: Cluster) -> str:
    """Why a QOS would never start a job of these settings: '' where it would."""
    most = queue.seconds(qos.text) if qos.text else None
    if most is None or cluster.hours * 3600 <= most:
        return ""
    what = f"QOS {qos.name} ends jobs after {qos.text}, cluster.time_limit is {cluster.time_limit}"
    return f"{what}: set cluster.time_limit={qos.text}; runs are queued again and go on by themselves"


class Membership(NamedTuple):
    """What a user's associations say about a job."""

    account: str
    qos: str
    """The QOS of a job that asks for none."""
    bounds: list[Bound]


def associations(rows: Iterable[list[str]], account: str | None, names: Iterable[str]) -> Membership:
    """The associations that a job of this account, by default the user's own, falls under."""
    chosen, qos, bounds = account or "", "", []
    for default, of, partition, *values, default_qos in rows:
        chosen = chosen or default
        if of != chosen or (partition and partition not in names):
            continue
        qos = default_qos or qos
        for value, name in zip(values, ("MaxSubmitJobs", "GrpSubmitJobs"), strict=True):
            if value.isdigit():
                bounds.append(Bound(int(value), f"{name} of account {of}", account=of, partition=partition))
    return Membership(chosen, qos, bounds)


def _of_qos(rows: Iterable[list[str]], scopes: dict[str, str]) -> Iterator[Bound]:
    """`scopes`: a partition's QOS counts the jobs of the partition, whatever their own QOS."""
    for name, *values in rows:
        names = ("MaxSubmitJobsPerUser", "MaxSubmitJobsPerAccount", "GrpSubmitJobs")
        partition = scopes.get(name, "")
        for value, key in zip(values, names, strict=True):
            if value.isdigit():
                yield Bound(int(value), f"{key} of QOS {name}", "" if partition else name, partition=partition)


_GENERIC = "job submit limit"
"""SLURM's sentence for any breach of a QOS or an association, as if it were always this one."""


def too_many(refusal: str) -> bool | None:
    """Whether sbatch refused because of how much is in the queue already. None where its words leave that open."""
    if re.search(r"\b(Assoc|QOS)\w*Submit\w*|MaxJobCount|Resource temporarily unavailable", refusal):
        return True
    if re.search(r"\b(Assoc|QOS)\w+", refusal) or _GENERIC not in refusal:
        return False  # one job alone is too large or too long: no other that ends would help
    return None
