"""Who is working on a run: a claim that dies with its owner."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import time
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import files
from harness.errors import HarnessError

STALE_SECONDS = 300.0
"""A claim from another host counts as dead when it was not renewed for so long; owners renew every 30 s."""
RENEW_SECONDS = 30.0
CHECK_SECONDS = 5.0
"""How often an owner looks whether its claim was taken over."""
FENCE_SECONDS = 15.0
"""How long a job that takes over from its own earlier attempt waits for that one to notice and to end its trainer."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, told apart from a later one that got the same pid."""

    host: str
    boot: str
    pid: int
    started: int
    """Start time of the process in clock ticks since boot (/proc/PID/stat)."""
    time: float
    """Unix time of the last renewal."""
    job: str = ""
    """SLURM's job, `1234@cluster`; empty outside one."""
    restart: int = 0
    """How often SLURM had queued this job again when the process was started."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" + (f", job {self.job.partition('@')[0]}" if self.job else "")

    def same(self, other: Owner) -> bool:
        """Whether both are one process."""
        return (self.pid, self.started, self.host, self.boot) == (other.pid, other.started, other.host, other.boot)

    def supersedes(self, other: Owner) -> bool:
        """Whether this is a later attempt of the same job: SLURM has given the earlier one up, wherever it runs."""
        return bool(self.job) and self.job == other.job and self.restart > other.restart


class Claimed(HarnessError):
    """Another live process owns the run."""


def here() -> Owner:
    """This process as an owner."""
    started = process_start(os.getpid()) or 0
    job, restart = _job(os.environ)
    return Owner(socket.gethostname(), _boot(), os.getpid(), started, time.time(), job, restart)


def _job(environment: Mapping[str, str]) -> tuple[str, int]:
    number, restart = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_RESTART_COUNT", "0")
    job = f"{number}@{environment.get('SLURM_CLUSTER_NAME', '')}" if number else ""
    return job, int(restart) if restart.isdigit() else 0


def owner(folder: Path) -> Owner | None:
    """The live owner of the thing in `folder`, or None. A damaged claim counts as none: claims are rewritten."""
    found = _claim(folder)
    return found if found is not None and alive(found) else None


def _claim(folder: Path) -> Owner | None:
    try:
        found = Owner(**files.read_mapping(folder / "claim.json"))
    except (FileNotFoundError, HarnessError, TypeError):
        return None
    texts, numbers = (found.host, found.boot, found.job), (found.pid, found.started, found.restart, found.time)
    return found if _all(texts, str) and _all(numbers, int | float) else None


def _all(values: tuple[object, ...], kind: type | types.UnionType) -> bool:
    return all(isinstance(value, kind) for value in values)


def alive(owner: Owner) -> bool:
    """Whether the process still exists; for another host, whether it renewed its claim lately."""
    if owner.host == socket.gethostname() and owner.boot == _boot():
        return process_start(owner.pid) == owner.started
    return time.time() - owner.time < STALE_SECONDS


@contextlib.contextmanager
def claimed(folder: Path, gone: str = "") -> Iterator[None]:
    """Owns the thing in `folder` while the block runs. Raises: Claimed, naming the live owner."""
    wait = take(folder, gone)
    try:
        if wait:
            time.sleep(wait)
            check(folder)
        yield
    finally:
        release(folder)


def take(folder: Path, gone: str = "") -> float:
    """Claims, or renews the own claim.

    Args:
        folder: what is claimed.
        gone: a job (`Owner.job`) that is known to have ended; its claim does not count.

    Returns: seconds to wait before anything is written to the folder, 0 but for a job whose earlier attempt may still
    be running somewhere, on a node that SLURM has lost.

    Raises: Claimed where another live process has it.
    """
    with files.locked(folder / ".lock"):
        found = owner(folder)
        me = here()
        wait = 0.0
        if found is not None and not found.same(me):
            if me.supersedes(found):
                wait = FENCE_SECONDS if time.time() - found.time < 2 * RENEW_SECONDS else 0.0
            elif not gone or found.job != gone:
                gone_for_good = "" if found.host == me.host else f" (gone for good? remove {folder / 'claim.json'})"
                raise Claimed(f"{folder} is in use by {found}: wait for it, or stop it, then try again{gone_for_good}")
        files.write_json(folder / "claim.json", dataclasses.asdict(me))
    return wait


def check(folder: Path) -> None:
    """Raises: Claimed where another process has taken over the claim of this one; what it wrote must stay."""
    found = _claim(folder)  # None: damaged or removed by hand, the next renewal writes it again
    if found is not None and not found.same(here()):
        raise Claimed(f"{folder} was taken over by {found}")


def release(folder: Path) -> None:
    """Gives the own claim back; another's claim stays."""
    with files.locked(folder / ".lock"):
        found = owner(folder)
        if found is not None and found.same(here()):
            (folder / "claim.json").unlink(missing_ok=True)


def process_start(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, None where there is none (or only its zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name in parentheses may hold spaces
    return None if fields[0] in "ZX" else int(fields[19])


def _boot() -> str:
    # The boot and the pid namespace: a container on the same host counts pids of its own.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
