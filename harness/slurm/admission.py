"""What no partition or QOS of the cluster would ever start: told when planning, on the login node."""

from __future__ import annotations

from collections.abc import Sequence

from harness.config.cluster import Cluster
from harness.errors import HarnessError
from harness.planning.plan import Planned, todo
from harness.slurm import command, limits, partitions


def check(entries: Sequence[Planned]) -> None:
    """Refuses what would wait in the queue for ever; what SLURM refuses by itself is left to it.

    Raises: HarnessError with the first reason.
    """
    clusters = {}
    for entry in todo(entries):
        settings = entry.composed.settings
        if settings.cluster.launcher == "slurm":
            nodes, cluster = settings.model.resources.nodes, settings.cluster
            clusters[nodes, cluster.partition, cluster.qos, cluster.time_limit] = (cluster, nodes)
    if not clusters:
        return
    try:
        known = partitions.ask()
    except (command.Unavailable, command.Refused):
        return  # sbatch will say so
    for cluster, nodes in clusters.values():
        if why := partitions.refusal(known, cluster, nodes) or _too_long(cluster):
            raise HarnessError(f"no job would ever start: {why}")


def _too_long(cluster: Cluster) -> str:
    if not cluster.qos:
        return ""
    try:
        known = limits.longest()
    except (command.Unavailable, command.Refused):
        return ""  # sbatch knows whether it exists
    return limits.too_long(known[cluster.qos], cluster) if cluster.qos in known else ""
