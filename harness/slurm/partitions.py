"""The partitions of the cluster, and what one of them would never start.

Many sites leave EnforcePartLimits off: sbatch then takes a job that no partition would ever start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.config.cluster import Cluster
from harness.slurm import command, queue

Fields = Mapping[str, str]
"""What scontrol says of one partition."""


def ask() -> dict[str, Fields]:
    """Every partition by its name. Raises: command.Unavailable or command.Refused."""
    return parse(command.run(["scontrol", "--oneliner", "show", "partition"]))


def parse(text: str) -> dict[str, Fields]:
    """`scontrol --oneliner show partition` by name."""
    found: dict[str, Fields] = {}
    for line in text.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if "PartitionName" in fields:
            found[fields["PartitionName"]] = fields
    return found


def wanted(asked: str | None, known: Mapping[str, Fields]) -> list[str]:
    """Names of the partitions that a job may go to: those asked for, else the cluster's default."""
    return asked.split(",") if asked else [name for name, fields in known.items() if fields.get("Default") == "YES"]


def qos(fields: Fields) -> str:
    """The QOS whose limits a partition puts on its jobs, '' without one."""
    found = fields.get("QoS", "N/A")
    return "" if found == "N/A" else found


def obstacles(name: str, fields: Fields, cluster: Cluster, nodes: int) -> Iterator[tuple[str, str]]:
    """(why, remedy): what keeps a job of these settings waiting for ever in one partition."""
    longest = queue.seconds(fields.get("MaxTime", "UNLIMITED"))
    if longest is not None and longest < cluster.hours * 3600:
        text = f"partition {name} ends jobs after {fields['MaxTime']}, cluster.time_limit is {cluster.time_limit}"
        yield text, f"set cluster.time_limit={fields['MaxTime']}; runs are queued again and go on by themselves"
    most = fields.get("MaxNodes", "")
    if most.isdigit() and int(most) < nodes:
        yield f"partition {name} gives a job {most} nodes at most, {nodes} are asked for", "choose another partition"


def refusal(known: Mapping[str, Fields], cluster: Cluster, nodes: int) -> str:
    """Why no partition asked for would ever start the job, '' where one would. Unknown ones are left to sbatch."""
    told = []
    for name in wanted(cluster.partition, known):
        found = [": ".join(obstacle) for obstacle in obstacles(name, known.get(name, {}), cluster, nodes)]
        if not found:
            return ""
        told.append(found[0])
    return "; ".join(told)
