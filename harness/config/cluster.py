"""Where and how runs are executed. Nothing here enters a run's identity."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import HarnessError, check, check_choice

CLUSTERS = ("auto", "local", "slurm")
OWNED = ("array", "job-name", "comment", "output", "error", "open-mode", "signal", "wrap", "chdir", "nodes", "time")
"""sbatch parameters that the harness sets itself."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d{2})(?::(\d{2}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Settings of this machine's launcher and of SLURM's."""

    name: str
    """`auto` takes SLURM where `sbatch` is on PATH and knows a cluster, else this machine; `local`; `slurm`."""
    hang_minutes: float = 10.0
    """No sign of progress for so long is a hang: the run is stopped and its logs are kept."""
    grace_seconds: float = 60.0
    """How long a run that is asked to stop may take to finish its step and save."""
    max_runs: int | None = None
    """Here: at most so many runs at once; by default as many as memory, cores and GPUs allow."""
    fork_server: bool = True
    """Here, on the CPU platform: fork Ray's workers from one preloaded process: faster start, same results."""

    account: str | None = None
    """SLURM account that is charged."""
    partition: str | None = None
    """SLURM partition; several as `a,b`. None is the cluster's default."""
    qos: str | None = None
    """SLURM quality of service."""
    constraint: str | None = None
    """Features that nodes must have, such as `h100&nvlink`."""
    gpu_type: str | None = None
    """Type in SLURM's gres, such as `h100`; None takes any."""
    gpus_per_node: int | None = None
    """Instead of the model's own `resources.gpus`."""
    nodes: int | None = None
    """Instead of the model's own `resources.nodes`."""
    cpus: int | None = None
    """Cores a node, instead of the model's own `resources.cpus`."""
    memory_gb: float | None = None
    """GiB a node, instead of the model's own `resources.memory_gb`."""
    time_limit: str = "24:00:00"
    """Of one attempt, HH:MM:SS or D-HH:MM:SS; a run that needs longer saves, is queued again and goes on."""
    array_parallelism: int | None = None
    """At most so many runs of one job array at once."""
    signal_seconds: int = 180
    """So long before the time limit a run is told to save. It must cover a step, a save and 10 s."""
    max_requeues: int = 20
    """How often a run may go back to the queue by itself."""
    retry_nodes: int = 2
    """How often a run is tried on another node after a fault of its node."""
    stop_after: int = 3
    """The first so many failures of one kind stop what is left of a sweep."""
    setup: tuple[str, ...] = ()
    """Shell lines at the start of a job, such as `module load cuda`."""
    python: str | None = None
    """Python of a job, such as `apptainer exec --nv image.sif python`; None is the one that submits."""
    exclude: tuple[str, ...] = ()
    """Nodes that no run gets."""
    sbatch: dict[str, str] = field(default_factory=dict)
    """Further sbatch parameters, such as {reservation: team, mail-type: END}."""

    def __post_init__(self) -> None:
        check_choice("cluster.name", self.name, CLUSTERS)
        check(self.hang_minutes > 0, "cluster.hang_minutes", self.hang_minutes, "more than 0")
        check(self.memory_gb is None or self.memory_gb > 0, "cluster.memory_gb", self.memory_gb, "more than 0")
        least = (
            ("max_runs", 1), ("gpus_per_node", 0), ("nodes", 1), ("cpus", 1), ("array_parallelism", 1),
            ("grace_seconds", 0), ("max_requeues", 0), ("retry_nodes", 0), ("stop_after", 1),
        )  # fmt: skip
        for key, lowest in least:
            value = getattr(self, key)
            check(value is None or value >= lowest, f"cluster.{key}", value, f"{lowest} or more")
        limit = 60 * minutes(self.time_limit)
        check(limit > 0, "cluster.time_limit", self.time_limit, "more than no time")
        check(
            0 < self.signal_seconds < limit, "cluster.signal_seconds", self.signal_seconds,
            f"must lie between 1 and cluster.time_limit={self.time_limit}, exclusive",
        )  # fmt: skip
        for key in self.sbatch:
            bare = key.lstrip("-").replace("_", "-")
            remedy = "the harness sets this one itself; see the other keys of conf/cluster/slurm.yaml"
            check(bare not in OWNED, f"cluster.sbatch.{key}", self.sbatch[key], remedy)

    @property
    def hours(self) -> float:
        """The time limit in hours."""
        return minutes(self.time_limit) / 60

    @property
    def launcher(self) -> str:
        """`slurm` or `local`: what `auto` means on this machine."""
        return resolved(self.name)


def resolved(name: str) -> str:
    """`slurm` or `local` for a `cluster.name`."""
    return name if name != "auto" else automatic()


def automatic() -> str:
    """What `auto` means here: HARNESS_CLUSTER if it is set, else `slurm` where `sbatch` knows a cluster, else `local`.

    Installed programs without a cluster (no slurm.conf, no server to get one from) count for nothing; a cluster whose
    controller does not answer is still one.
    """
    chosen = os.environ.get("HARNESS_CLUSTER")
    if chosen:
        check_choice("HARNESS_CLUSTER", chosen, ("local", "slurm"))
        return chosen
    sbatch = shutil.which("sbatch")
    return "slurm" if sbatch and _configured(sbatch, os.environ.get("SLURM_CONF")) else "local"


@functools.cache
def _configured(sbatch: str, _: str | None) -> bool:
    """Asked once for each sbatch and SLURM_CONF: scontrol says plainly where there is no configuration at all."""
    try:
        done = subprocess.run(
            [Path(sbatch).with_name("scontrol"), "ping"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    missing = ("configuration source", "Unable to process configuration file", "Unable to establish configuration")
    return not any(sign in done.stdout + done.stderr for sign in missing)


def minutes(text: str) -> int:
    """Minutes of a SLURM time such as `4:00:00`, `2-00:00:00` or `90:00` (minutes:seconds), rounded up.

    Raises: HarnessError where it is none.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise HarnessError(f"cluster.time_limit={text!r}: write hours as '4:00:00' or days as '2-00:00:00', in quotes")
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match.group(1) is None and match.group(4) is None:
        seconds = 60 * first + second
    elif match.group(4) is None:  # D-HH:MM
        seconds = 86400 * days + 3600 * first + 60 * second
    else:
        seconds = 86400 * days + 3600 * first + 60 * second + third
    return -(-seconds // 60)
