"""How much SLURM lets one user submit at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.slurm import command

DEFAULT_ARRAY = 1001
"""SLURM's own default of MaxArraySize."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What was found; None is no limit, or none that we may see."""

    array_size: int
    """Tasks of one array, at most (MaxArraySize counts from 0, so its last index is one less)."""
    jobs: int | None
    """Jobs that this user may have in the queue at once; every task of an array is one."""
    source: str
    """Which limit `jobs` comes from, for people."""

    def room(self, queued: int) -> int | None:
        """How many more may be submitted."""
        return None if self.jobs is None else max(0, self.jobs - queued)


def ask(user: str, account: str | None, qos: str | None, partition: str | None) -> Limits:
    """Asks scontrol and, where there is accounting, sacctmgr. Raises: command.Unavailable without scontrol."""
    config = settings(command.run(["scontrol", "show", "config"]))
    size = int(config.get("MaxArraySize", DEFAULT_ARRAY))
    found = _number_limits(config, user, account, qos, partition)
    jobs, source = min(found) if found else (None, "")
    return Limits(max(1, size - 1), jobs, source)


def settings(text: str) -> dict[str, str]:
    """`scontrol show config` as a mapping."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _number_limits(
    config: dict[str, str], user: str, account: str | None, qos: str | None, partition: str | None
) -> list[tuple[int, str]]:
    found = []
    if config.get("MaxJobCount", "").isdigit():
        found.append((int(config["MaxJobCount"]), "MaxJobCount of the cluster"))
    if not re.search("limits|qos|safe", config.get("AccountingStorageEnforce", "none")):
        return found  # what sacctmgr says is not enforced
    try:
        found += associations(
            command.run(
                ["sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={user}",
                 "format=Account,Partition,MaxSubmitJobs,GrpSubmitJobs,DefaultQOS"]
            ), account, partition,
        )  # fmt: skip
        if qos:
            text = command.run(
                ["sacctmgr", "--noheader", "--parsable2", "show", "qos", qos,
                 "format=Name,MaxSubmitJobsPU,MaxSubmitJobsPA,GrpSubmitJobs"]
            )  # fmt: skip
            found += _qos_limits(text)
    except (command.Unavailable, command.Refused):
        return found
    return found


def associations(text: str, account: str | None, partition: str | None) -> list[tuple[int, str]]:
    """(limit, its name) of the associations that a job of this account and partition falls under."""
    found = []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 5 or (account and fields[0] != account):
            continue
        if fields[1] and partition and fields[1] not in partition.split(","):
            continue
        for value, name in zip(fields[2:4], ("MaxSubmitJobs", "GrpSubmitJobs"), strict=True):
            if value.isdigit():
                found.append((int(value), f"{name} of account {fields[0]}"))
    return found


def _qos_limits(text: str) -> Sequence[tuple[int, str]]:
    found = []
    for line in text.splitlines():
        name, *values = line.split("|")
        limits = zip(values, ("MaxSubmitJobsPerUser", "MaxSubmitJobsPerAccount", "GrpSubmitJobs"), strict=False)
        found += [(int(value), f"{key} of QOS {name}") for value, key in limits if value.isdigit()]
    return found
