"""A Ray cluster that the job has brought up around the trainer, for the trainer to join instead of starting its own.

It belongs to whoever started it (`harness.running.job.ray_cluster`): the trainer leaves it as it found it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

ADDRESS = "HARNESS_RAY_ADDRESS"
NODE = "HARNESS_RAY_NODE"
TEMP = "HARNESS_RAY_TEMP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where it is."""

    address: str
    """`host:port` of its head."""
    node: str
    """Address of the node that the trainer runs on; several nodes of Ray may share a host."""
    temp: Path
    """Ray's folder on this node, with the token."""

    def variables(self) -> dict[str, str]:
        """For the environment of a trainer that is to join."""
        return {ADDRESS: self.address, NODE: self.node, TEMP: str(self.temp)}


def given(environment: Mapping[str, str]) -> Cluster | None:
    """The cluster that this process was given, None where it starts its own."""
    if ADDRESS not in environment:
        return None
    return Cluster(address=environment[ADDRESS], node=environment[NODE], temp=Path(environment[TEMP]))


def join(config: DictConfig, cluster: Cluster) -> None:
    """Makes verl join: nothing else may be said to ray.init about a cluster that exists."""
    with open_dict(config):
        config.ray_kwargs.ray_init = OmegaConf.create(
            {"address": cluster.address, "_node_ip_address": cluster.node, "num_cpus": None}
        )
