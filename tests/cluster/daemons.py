"""Processes that a test cluster started, written down so that exactly these are ended again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from harness.running.supervise import die_with_parent
from harness.store.claim import process_start


@dataclass(frozen=True, slots=True)
class Daemons:
    """Pid files `<name>.pid` in one folder, each with the pid and its start time: a reused pid is not ours."""

    folder: Path
    logs: Path
    bound: bool = False
    """They end with the process that starts them, even if it is killed."""

    def start(self, name: str, command: list[str], environment: dict[str, str]) -> int:
        """Starts `command`, which must stay in the foreground; returns its pid."""
        self.folder.mkdir(exist_ok=True)
        with (self.logs / f"{name}.out").open("ab") as out:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM) if self.bound else None,
            )  # fmt: skip
        (self.folder / f"{name}.pid").write_text(f"{process.pid} {process_start(process.pid)}")
        process.returncode = 0  # it outlives us where a person brings the cluster up: no warning about that
        return process.pid

    def names(self) -> list[str]:
        """All that were started and not ended."""
        return sorted(path.stem for path in self.folder.glob("*.pid"))

    def pid(self, name: str) -> int | None:
        """Pid of a running one."""
        try:
            pid, started = map(int, (self.folder / f"{name}.pid").read_text().split())
        except (FileNotFoundError, ValueError):
            return None
        _collect(pid)
        return pid if process_start(pid) == started else None

    def end(self, *names: str, seconds: float = 5.0, kill: bool = False) -> None:
        """Asks them to end, all at once, and kills what has not after `seconds`."""
        for number in (signal.SIGKILL,) if kill else (signal.SIGTERM, signal.SIGKILL):
            left = [pid for name in names if (pid := self.pid(name)) is not None]
            for pid in left:
                os.kill(pid, number)
            deadline = time.monotonic() + seconds
            while any(self.pid(name) is not None for name in names) and time.monotonic() < deadline:
                time.sleep(0.05)
        for name in names:
            if self.pid(name) is None:
                (self.folder / f"{name}.pid").unlink(missing_ok=True)


def _collect(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # another process started it


def end_marked(variable: str) -> int:
    """Kills every process whose environment has `variable` (NAME=value); returns how many there were."""
    found = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
                found += 1
        except OSError:
            continue  # it ended meanwhile
    return found
