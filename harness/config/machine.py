"""What this machine has, and what a run takes from it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace

from harness.config.settings import Resources
from harness.errors import HarnessError


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores, memory and GPUs that are free for runs."""

    cpus: int
    memory_gb: float
    gpus: tuple[str, ...]
    """Ids as CUDA_VISIBLE_DEVICES takes them."""

    def fits(self, need: Resources) -> bool:
        """Whether a run of this need can start now."""
        return need.cpus <= self.cpus and need.memory_gb <= self.memory_gb and need.gpus <= len(self.gpus)

    def take(self, need: Resources) -> tuple[Machine, tuple[str, ...]]:
        """(what is left, the GPUs that the run gets)."""
        gpus = self.gpus[: need.gpus]
        left = replace(
            self, cpus=self.cpus - need.cpus, memory_gb=self.memory_gb - need.memory_gb, gpus=self.gpus[need.gpus :]
        )
        return left, gpus

    def give_back(self, need: Resources, gpus: tuple[str, ...]) -> Machine:
        """What is free once a run has ended."""
        return replace(
            self, cpus=self.cpus + need.cpus, memory_gb=self.memory_gb + need.memory_gb, gpus=(*self.gpus, *gpus)
        )


def check(machine: Machine, need: Resources, model: str) -> None:
    """Raises: HarnessError where a run could never start on this machine."""
    if need.nodes > 1:
        raise HarnessError(f"model.resources.nodes={need.nodes}: {model} spans several machines: it needs a cluster")
    for key, wanted, there, unit in (
        ("gpus", need.gpus, len(machine.gpus), "GPUs"),
        ("memory_gb", need.memory_gb, machine.memory_gb, "GiB of memory free"),
    ):
        if wanted > there:
            remedy = (
                "choose model=tiny, or run on a machine that has them"
                if key == "gpus"
                else f"lower model.resources.{key} if the run takes less"
            )
            raise HarnessError(f"model.resources.{key}={wanted:g}: this machine has {there:.3g} {unit}; {remedy}")


def survey() -> Machine:
    """Cores and memory that this process may use, GPUs that it may see."""
    return Machine(len(os.sched_getaffinity(0)), _memory_gb(), _gpus())


def shared(machine: Machine, need: Resources) -> Resources:
    """A machine with fewer cores than a run would like still runs one at a time."""
    return replace(need, cpus=min(need.cpus, machine.cpus))


def _memory_gb() -> float:
    available = 0
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                available = int(line.split()[1]) * 1024
    return min([available, *_cgroup_limits()]) / 2**30


def _cgroup_limits() -> list[int]:
    """Memory limit of the container or the allocation that we are in, if any."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            return [int(text)]
    return []


def _gpus() -> tuple[str, ...]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(v.strip() for v in visible.split(",") if v.strip() and v.strip() != "-1")
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # also one that we may not run
        return ()
    return (
        tuple(line.strip() for line in done.stdout.splitlines() if line.strip().isdigit())
        if done.returncode == 0
        else ()
    )
