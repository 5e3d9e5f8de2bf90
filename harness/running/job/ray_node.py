"""Ray on one node of a job: `ray start --block` as a child that dies with us, and only that one is ever stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.running.supervise import die_with_parent
from harness.store.claim import process_start
from harness.trainer import environment as trainer_environment
from harness.trainer import processes
from harness.trainer.environment import Attempt

UNWANTED = ("RAY_ADDRESS", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES")
"""A stale address leads into somebody else's cluster; verl refuses the others, which SLURM sets for any GPU."""
CPU_OBJECT_STORE_BYTES = 256 * 2**20
_OWNER = "owner"
_TRIES = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What Ray hands out on one node."""

    cpus: int
    gpus: int
    object_store: int | None
    """Bytes; None is Ray's own choice."""


def size(verl: Mapping[str, Any], cpus: int) -> Size:
    """From verl's config: on the CPU platform cores and GPUs are logical, else they are the job's."""
    asked = verl.get("ray_kwargs", {}).get("ray_init", {})
    gpus = int(verl["trainer"]["n_gpus_per_node"])
    if trainer_environment.on_cpu(verl):
        return Size(cpus=int(asked.get("num_cpus") or cpus), gpus=gpus, object_store=CPU_OBJECT_STORE_BYTES)
    return Size(cpus=cpus, gpus=gpus, object_store=asked.get("object_store_memory"))


class RayNode:
    """A running `ray start --block`."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        attempt: Attempt,
        *,
        own: str,
        cpus: int,
        rank: int,
        head: str = "",
        token: str = "",
    ) -> None:
        """Starts a head, or joins the one at `head` with its token.

        Args:
            spec: the frozen spec.
            attempt: what is to run here.
            own: this node's address.
            cpus: cores of the job on this node.
            rank: names the log file.
            head: `host:port` of the head, '' to be it.
            token: the head's; a head makes its own.
        """
        self.attempt = attempt.folder
        self.log = attempt.folder / f"ray.{rank}.log"
        self._tries = _TRIES
        self._size = size(spec["verl"], cpus)
        self._inherited = clean(os.environ, spec)
        self._spec, self._attempt, self._own, self._head, self._token = spec, attempt, own, head, token
        self._start()

    def _start(self) -> None:
        self.temp = trainer_environment.make_ray_temp(self._attempt)
        if self._token:
            trainer_environment.token_file(self.temp).write_text(self._token)
        sweep(self.temp.parent)
        (self.temp / _OWNER).write_text(f"{os.getpid()} {process_start(os.getpid())}")
        # The environment does not travel from the driver to other nodes: what workers need is set here.
        extra = trainer_environment.variables(self._spec, self._attempt, self.temp, os.environ)
        extra["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"  # else every end takes 30 s longer
        folder = trainer_environment.ray_folder(self.temp)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                _command(self._size, folder, self._own, self._head), env={**self._inherited, **extra},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )  # fmt: skip

    def joined(self) -> str:
        """Address of the cluster once this node belongs to it, '' before. Ray writes the file when it is up."""
        try:
            return (trainer_environment.ray_folder(self.temp) / "ray_current_cluster").read_text().strip()
        except OSError:
            return ""

    def ended(self) -> bool:
        """Whether it has gone for good; it never ends by itself. One that did not come up is started once more.

        `ray start` waits 30 s for its raylet, which a busy node may need, and then gives up.
        """
        if self.process.poll() is None:
            return False
        if self.joined() or self._tries <= 1:
            return True
        self._tries -= 1
        log.warning("Ray did not come up: once more; see %s", self.log)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        shutil.rmtree(self.temp, ignore_errors=True)
        self._start()
        return False

    def end(self, seconds: float = 5.0) -> None:
        """Ends this node's Ray and everything of the attempt that is left here, and removes its folder."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                os.killpg(self.process.pid, number)
            deadline = time.monotonic() + seconds
            while self.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
        processes.end(self.attempt, grace=2.0, exclude=frozenset([os.getpid()]))
        shutil.rmtree(self.temp, ignore_errors=True)


def sweep(root: Path) -> None:
    """Removes the folders that killed jobs of ours have left on this node: their owner is gone."""
    for note in root.glob(f"{trainer_environment.PREFIX}*/{_OWNER}"):
        try:
            pid, started = map(int, note.read_text().split())
            mine = note.stat().st_uid == os.getuid()
        except (OSError, ValueError):
            continue  # being written, or gone already
        if mine and process_start(pid) != started:
            shutil.rmtree(note.parent, ignore_errors=True)


def clean(environment: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a job without what misleads Ray or verl."""
    # Ray refuses more logical GPUs than CUDA_VISIBLE_DEVICES lists.
    unwanted = {*UNWANTED, *(("CUDA_VISIBLE_DEVICES",) if trainer_environment.on_cpu(spec["verl"]) else ())}
    return {key: value for key, value in environment.items() if key not in unwanted}


def _command(size: Size, folder: Path, own: str, head: str) -> list[str]:
    role = ["--head", "--port=0", "--include-dashboard=False"] if not head else [f"--address={head}"]
    store = [f"--object-store-memory={size.object_store}"] if size.object_store else []
    return [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *role, *store, f"--temp-dir={folder}",
        f"--node-ip-address={own}", f"--num-cpus={size.cpus}", f"--num-gpus={size.gpus}", "--disable-usage-stats",
        # No port is fixed or derived: the system picks them, so that jobs on one node cannot clash.
        "--dashboard-agent-listen-port=0", "--min-worker-port=0", "--max-worker-port=0",
    ]  # fmt: skip
