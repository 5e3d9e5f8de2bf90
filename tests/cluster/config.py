"""The configuration files of a test cluster. Every line that is no default says why."""

from __future__ import annotations

import getpass
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

NAME = "harness"
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Layout:
    """Names, sizes and ports of one cluster."""

    folder: Path
    host: str
    nodes: int
    cpus: int
    memory_mb: int
    gpus: int
    max_array: int
    strict: bool
    """Limits of accounts and QOS are enforced, and memory by the kernel where it can be."""
    ports: tuple[int, ...]
    """Free when asked for: slurmctld, slurmdbd, one a node."""

    @classmethod
    def make(
        cls,
        folder: Path,
        nodes: int,
        *,
        cpus: int = 32,
        memory_mb: int = 200_000,
        gpus: int = 8,
        max_array: int = 1001,
        strict: bool = False,
    ) -> Layout:
        """Cores, memory and GPUs are a node's; they may exceed what the machine has."""
        return cls(
            folder=folder, host=socket.gethostname().split(".")[0], nodes=nodes, cpus=cpus, memory_mb=memory_mb,
            gpus=gpus, max_array=max_array, strict=strict, ports=_free(2 + nodes),
        )  # fmt: skip

    @property
    def cgroups(self) -> bool:
        """Whether the kernel limits memory."""
        return self.strict and not no_cgroups()

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return [f"node{number}" for number in range(1, self.nodes + 1)]


def _free(count: int) -> tuple[int, ...]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()


def slurm(layout: Layout) -> str:
    """slurm.conf."""
    folder, munge = layout.folder, layout.folder / "munge" / "socket"
    nodes = [
        f"NodeName={name} NodeHostname={layout.host} NodeAddr=127.0.1.{number} Port={layout.ports[1 + number]}"
        f" CPUs={layout.cpus} RealMemory={layout.memory_mb} Gres=gpu:{layout.gpus}"
        for number, name in enumerate(layout.names, 1)
    ]
    return f"""
ClusterName={NAME}
SlurmctldHost={layout.host}(127.0.0.1)
SlurmctldPort={layout.ports[0]}
SlurmUser={getpass.getuser()}
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits cred_expire + 1 s. That must exceed the time a step survives SIGTERM, else it is held for ever.
AuthInfo=socket={munge},cred_expire=10
# slurmctld on loopback; slurmd and slurmdbd know no such option, but answer only who has this cluster's munge key.
CommunicationParameters=NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
# Any container will do: no affinity, more cores and memory than there are.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/{"cgroup" if layout.cgroups else "none"}
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=512
MaxArraySize={layout.max_array}
MaxJobCount=20000
# Ids go on where an earlier cluster stopped: files named by job id of that one are not taken for ours.
FirstJobId={int(time.time()) % 60_000_000 + 1}
# quick for tests
ReturnToService=2
SlurmdTimeout=10
KillWait=2
MinJobAge=3600
SchedulerParameters=sched_interval=1,bf_interval=2,batch_sched_delay=0,sched_min_interval=100000
PriorityType=priority/basic
# The higher tier takes nodes from the lower one, whose jobs get the signal they asked for and GraceTime.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
JobRequeue=1
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
{"" if layout.cgroups else "JobAcctGatherParams=OverMemoryKill"}
{"AccountingStorageEnforce=associations,limits,qos" if layout.strict else ""}
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={layout.ports[1]}
AccountingStoragePass={munge}
AccountingStorageTRES=gres/gpu
GresTypes=gpu
{chr(10).join(nodes)}
PartitionName=gpu     Nodes=ALL   Default=YES MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
PartitionName=preempt Nodes=ALL   MaxTime=INFINITE PriorityTier=1  PreemptMode=REQUEUE GraceTime=20
PartitionName=debug   Nodes=node1 MaxTime=60       PriorityTier=5  PreemptMode=OFF
"""


def gres(layout: Layout) -> str:
    """gres.conf: the index of a fake GPU in CUDA_VISIBLE_DEVICES is its file's number."""
    return f"NodeName={','.join(layout.names)} Name=gpu File={layout.folder}/dev/gpu[0-{layout.gpus - 1}]\n"


def cgroup(layout: Layout) -> str:
    """cgroup.conf."""
    if not layout.cgroups:
        return "# no cgroups here\n"
    return f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={CGROUPS}\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\n"


def no_cgroups() -> str:
    """Why SLURM cannot limit memory by the kernel here, '' where it can (version 1; that of 2 asks for systemd)."""
    place = CGROUPS / "memory"
    if not (place / "memory.limit_in_bytes").exists():
        return f"no memory cgroups of version 1 in {CGROUPS}"
    probe = place / f"harness-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"{place} cannot be used: {error.strerror}"
    return ""


def slurmdbd(layout: Layout) -> str:
    """slurmdbd.conf; the database is reached by its socket (StorageHost localhost), as root without a password."""
    return f"""
AuthType=auth/munge
AuthInfo=socket={layout.folder}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={layout.ports[1]}
SlurmUser={getpass.getuser()}
LogFile={layout.folder}/log/slurmdbd.log
PidFile={layout.folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""
