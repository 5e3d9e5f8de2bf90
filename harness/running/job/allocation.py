"""The job that this process belongs to, as SLURM's environment describes it."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import HarnessError
from harness.slurm import command

DEFAULT_SIGNAL_SECONDS = 180
_ADDRESS = re.compile(r"\bNodeAddr=(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One attempt of one job, seen from one of its nodes."""

    job: str
    """As scontrol takes it: `1234_3` in an array. Never the bare id there: the last task of an array has the id of
    the whole array, and scontrol would act on all of it."""
    number: str
    """SLURM_JOB_ID, unique in the cluster."""
    restart: int
    """How often SLURM had queued the job again."""
    rank: int
    """0 on the node that leads."""
    nodes: int
    node: str
    """This node's name."""
    node_list: str
    """All of them in SLURM's short form."""
    cpus: int
    """Cores of the job on this node."""
    gpus: int
    """GPUs of the job on this node."""
    submission: str
    """Key of the submission, '' where the job was not submitted by the harness."""
    signal_seconds: int
    """How long before its time limit the job is told."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Allocation:
        """From the environment of a job step. Raises: HarnessError outside of one."""
        try:
            number = environment["SLURM_JOB_ID"]
            array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
            visible = environment.get("CUDA_VISIBLE_DEVICES", "")
            return cls(
                job=f"{array}_{task}" if array and task else number, number=number,
                restart=int(environment.get("SLURM_RESTART_COUNT", 0)), rank=int(environment["SLURM_PROCID"]),
                nodes=int(environment["SLURM_JOB_NUM_NODES"]), node=environment["SLURMD_NODENAME"],
                node_list=environment["SLURM_JOB_NODELIST"], cpus=int(environment.get("SLURM_CPUS_ON_NODE", 1)),
                gpus=len([g for g in visible.split(",") if g]), submission=environment.get("HARNESS_SUBMISSION", ""),
                signal_seconds=int(environment.get("HARNESS_SIGNAL_SECONDS", DEFAULT_SIGNAL_SECONDS)),
            )  # fmt: skip
        except (KeyError, ValueError) as error:
            raise HarnessError(
                f"{error}: harness.running.job.lead is the payload of a SLURM job, one task a node; "
                "here use `python -m harness.running.supervise RUN_DIR`"
            ) from None

    def names(self) -> list[str]:
        """Names of all nodes, the leading one first."""
        return command.run(["scontrol", "show", "hostnames", self.node_list]).split()


def address(node: str, others: tuple[str, ...] = ()) -> str:
    """The address by which the other nodes of the job reach this one.

    It is what slurmctld itself uses (NodeAddr). Some systems resolve a node's own name to a loopback address: where
    other nodes have real ones, the address of the interface that leads to them is taken instead.
    """
    found = _resolve(node)
    if not ipaddress.ip_address(found).is_loopback:
        return found
    for other in others:
        there = _resolve(other)
        if not ipaddress.ip_address(there).is_loopback:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((there, 9))  # sends nothing: the kernel chooses the interface
                return str(probe.getsockname()[0])
    return found


def _resolve(node: str) -> str:
    try:
        match = _ADDRESS.search(command.run(["scontrol", "show", "node", node]))
    except (command.Unavailable, command.Refused):
        match = None
    name = match.group(1) if match else node
    try:
        return socket.gethostbyname(name)
    except OSError:
        raise HarnessError(f"node {node}: its address {name} cannot be resolved on this node; ask the site") from None
