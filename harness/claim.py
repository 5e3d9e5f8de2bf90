"""Who is working on a run: a claim that dies with its owner."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import files
from harness.errors import HarnessError

STALE_SECONDS = 300.0
"""A claim from another host counts as dead when it was not renewed for so long; owners renew every 30 s."""
RENEW_SECONDS = 30.0


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

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Claimed(HarnessError):
    """Another live process owns the run."""


def here() -> Owner:
    """This process as an owner."""
    return Owner(socket.gethostname(), _boot(), os.getpid(), process_start(os.getpid()) or 0, time.time())


def owner(folder: Path) -> Owner | None:
    """The live owner of the thing in `folder`, or None. A damaged claim counts as none: claims are rewritten."""
    try:
        fields = files.read_json(folder / "claim.json")
        found = Owner(**fields)
    except (FileNotFoundError, HarnessError, TypeError):
        return None
    return found if alive(found) else None


def alive(owner: Owner) -> bool:
    """Whether the process still exists; for another host, whether it renewed its claim lately."""
    if owner.host == socket.gethostname() and owner.boot == _boot():
        return process_start(owner.pid) == owner.started
    return time.time() - owner.time < STALE_SECONDS


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Owns the thing in `folder` while the block runs. Raises: Claimed, naming the live owner."""
    take(folder)
    try:
        yield
    finally:
        release(folder)


def take(folder: Path) -> None:
    """Claims, or renews the own claim. Raises: Claimed where another live process has it."""
    with files.locked(folder / ".lock"):
        found = owner(folder)
        me = here()
        if found is not None and (found.pid, found.started, found.host) != (me.pid, me.started, me.host):
            raise Claimed(f"{folder} is in use by {found}: wait for it, or stop it, then try again")
        files.write_json(
            folder / "claim.json",
            {"host": me.host, "boot": me.boot, "pid": me.pid, "started": me.started, "time": me.time},
        )


def release(folder: Path) -> None:
    """Gives the own claim back; another's claim stays."""
    with files.locked(folder / ".lock"):
        found = owner(folder)
        if found is not None and found.pid == os.getpid() and found.host == socket.gethostname():
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
