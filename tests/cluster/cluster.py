"""A real SLURM on this machine: logical nodes with fake GPUs, accounting and preemption; root, but no systemd.

By hand:  python -m tests.cluster.cluster up FOLDER     (prints the `export SLURM_CONF=...` to evaluate)
          python -m tests.cluster.cluster down FOLDER

Everything lies in FOLDER: configuration, key, socket, database, logs. Ports are picked by the system, so that
several clusters can be up at once, and nobody without its munge key gets an answer.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import config
from tests.cluster.daemons import Daemons, end_marked

PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "slurmdbd", "munge", "mariadb-server",
)  # fmt: skip
"""Debian packages, to be installed with --no-install-recommends."""
_PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "mariadb-install-db", "sbatch")


def missing() -> str:
    """Why this machine cannot have a cluster, '' where it can."""
    if os.geteuid() != 0:
        return "a cluster of one's own needs root"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    absent = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
    return f"not installed: {', '.join(absent)} (Debian: apt-get install {' '.join(PACKAGES)})" if absent else ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster in one folder. Nothing is kept in memory: a second process can steer it, too."""

    folder: Path
    nodes: int = 4
    bound: bool = False
    """It ends with the process that brings it up."""

    @property
    def conf(self) -> Path:
        """What SLURM_CONF names."""
        return self.folder / "etc" / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which sbatch and its like reach this cluster."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
        return {**inherited, "SLURM_CONF": str(self.conf), "PATH": f"{os.environ['PATH']}:/usr/sbin"}

    @property
    def daemons(self) -> Daemons:
        """Its processes."""
        return Daemons(self.folder / "pid", self.folder / "log", self.bound)

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Makes this process and its children see the cluster while the block runs."""
        before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = str(self.conf)
        try:
            yield
        finally:
            if before is None:
                del os.environ["SLURM_CONF"]
            else:
                os.environ["SLURM_CONF"] = before

    def run(self, *command: str, check: bool = True, timeout: float = 30.0) -> str:
        """Output of a client command such as squeue."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=timeout)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip()

    def up(self, **options: int) -> None:
        """Brings it up; see `config.Layout` for the options. Raises: RuntimeError where a daemon does not answer."""
        layout = config.Layout.make(self.folder, self.nodes, **options)
        for name in ("etc", "log", "munge", "dev", "state", "mysql", *(f"spool/{node}" for node in layout.names)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for path in (self.folder, self.folder / "munge"):
            path.chmod(0o755)  # munge's socket lies below: jobs of other users go through
        _private(self.folder / "munge" / "key", secrets.token_bytes(1024))
        for number in range(layout.gpus):  # character devices: of plain files CUDA_VISIBLE_DEVICES stays empty
            os.mknod(self.folder / "dev" / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        self.conf.write_text(config.slurm(layout))
        (self.folder / "etc" / "gres.conf").write_text(config.gres(layout))
        (self.folder / "etc" / "cgroup.conf").write_text(config.cgroup(layout))
        _private(self.folder / "etc" / "slurmdbd.conf", config.slurmdbd(layout).encode())
        self._start_munge()
        self._start_database(layout)
        self._start_accounting()
        self.start_controller()
        for node in layout.names:
            self.start_node(node)
        _wait(lambda: self.states().count("idle") == self.nodes, "the nodes", self.folder)

    def down(self) -> None:
        """Ends its jobs, its daemons and whatever its jobs left running."""
        if self.daemons.pid("slurmctld"):
            self.run("scancel", "--full", "--signal=KILL", "--user=root", check=False)
            self.run("scancel", "--user=root", check=False)
        slurmds = [name for name in self.daemons.names() if name.startswith("slurmd.")]
        self.daemons.end("slurmctld", *slurmds)
        end_marked(f"SLURM_CONF={self.conf}")
        for name in ("slurmdbd", "mariadbd", "munged"):
            self.daemons.end(name, seconds=10)

    def states(self) -> list[str]:
        """State of every node, such as `idle`."""
        return self.run("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%t", check=False).split()

    def start_node(self, node: str) -> None:
        """Starts the slurmd of a node."""
        self._start(f"slurmd.{node}", ["slurmd", "-D", "-f", str(self.conf), "-N", node])

    def kill_node(self, node: str) -> None:
        """Kills the slurmd of a node outright; what its jobs run goes on."""
        self.daemons.end(f"slurmd.{node}", kill=True)

    def start_controller(self) -> None:
        """Starts slurmctld and waits until it answers."""
        self._start("slurmctld", ["slurmctld", "-D", "-f", str(self.conf)])
        _wait(lambda: "UP" in self.run("scontrol", "ping", check=False), "slurmctld", self.folder)

    def stop_controller(self) -> None:
        """Ends slurmctld; jobs run on."""
        self.daemons.end("slurmctld")

    def _start(self, name: str, command: list[str]) -> None:
        self.daemons.start(name, command, self.environment)

    def _start_munge(self) -> None:
        place = self.folder / "munge"
        options = {
            "key-file": place / "key", "socket": place / "socket", "pid-file": place / "munged.pid",
            "log-file": self.folder / "log" / "munged.log", "seed-file": place / "seed",
        }  # fmt: skip
        self._start("munged", ["munged", "--foreground", "--force", *(f"--{k}={v}" for k, v in options.items())])
        _wait((place / "socket").exists, "munged", self.folder)

    def _start_database(self, layout: config.Layout) -> None:
        data, door = self.folder / "mysql", self.folder / "mysql.sock"
        if not (data / "mysql").is_dir():
            with (self.folder / "log" / "mysql-install.log").open("w") as out:
                subprocess.run(
                    ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db",
                     "--auth-root-authentication-method=normal"], stdout=out, stderr=out, check=True,
                )  # fmt: skip
        self._start("mariadbd", [
            "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={door}", "--skip-networking",
            f"--log-error={self.folder / 'log' / 'mariadb.log'}", f"--pid-file={self.folder / 'mysql.pid'}",
            "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0",
            "--skip-log-bin", "--performance-schema=OFF",
        ])  # fmt: skip
        client = ["mariadb", "--no-defaults", "-uroot", f"--socket={door}", "-e"]
        _wait(lambda: _succeeds([*client, "SELECT 1"]), "mariadbd", self.folder)
        subprocess.run([*client, "CREATE DATABASE IF NOT EXISTS slurm_acct_db"], check=True)

    def _start_accounting(self) -> None:
        # It finds slurmdbd.conf beside the file that SLURM_CONF names, and the database by its socket.
        environment = {**self.environment, "MYSQL_UNIX_PORT": str(self.folder / "mysql.sock")}
        self.daemons.start("slurmdbd", ["slurmdbd", "-D"], environment)
        _wait(lambda: _succeeds(["sacctmgr", "-n", "show", "cluster"], self.environment), "slurmdbd", self.folder)
        self.run("sacctmgr", "--immediate", "add", "cluster", config.NAME, check=False)


def _private(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _succeeds(command: list[str], environment: dict[str, str] | None = None) -> bool:
    try:
        return subprocess.run(command, env=environment, capture_output=True, timeout=10).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _wait(condition: Callable[[], bool], what: str, folder: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not come up in {seconds:g} s: see {folder / 'log'}")
        time.sleep(0.1)


def main(arguments: list[str]) -> int:
    """`up FOLDER` and `down FOLDER`."""
    verb, name = arguments
    cluster = Cluster(Path(name).resolve())
    if verb == "down":
        cluster.down()
        return 0
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return 2
    began = time.monotonic()
    cluster.up()
    print(f"# up in {time.monotonic() - began:.1f} s on {socket.gethostname()}\nexport SLURM_CONF={cluster.conf}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
