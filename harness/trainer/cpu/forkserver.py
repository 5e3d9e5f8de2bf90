"""A process that imported torch, Ray and verl, and forks what would otherwise import them again, run after run.

A run of verl is a driver, nine Ray workers and five helpers of Ray, and on a CPU its first minute is these processes
importing the same modules. `ForkServer.start` spawns a server that imports them once for a whole sweep; runs find it by
the environment variable HARNESS_FORK_SERVER. CPU mode only; without the variable, or where the server is gone or
declines, processes start as ever. What is forked runs the same code on the same inputs; `preload` says how that is
checked.

How Ray is led here: while the driver calls ray.init, `sys.executable` is a script that runs `forkclient`
(`ray_python`). Ray starts its helpers with it and hands it to the raylet for its workers. Alternatives: a sitecustomize
on PYTHONPATH hides the user's own and runs in every Python process there is; so does a `.pth` file, in every
environment; `py_executable` of a runtime environment is read by a Python that Ray starts, and that imports Ray, for
each worker.

This is the owner's side and imports nothing heavy; `forkhost` is the server, `forkclient` what asks it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.trainer.cpu import forkclient
from harness.trainer.environment import shared_variables

MODULES = (
    "ray", "torch", "verl.trainer.main_ppo", "verl.trainer.ppo.v1.trainer_sync", "verl.workers.engine_workers",
    "verl.workers.engine.fsdp.transformer_impl", "verl.experimental.agent_loop", "verl.experimental.reward_loop",
    "verl.experimental.reward_loop.reward_manager", "transformers.models.qwen3.modeling_qwen3",
    "torch.utils.tensorboard", "ray._private.log_monitor", "ray.autoscaler._private.monitor",
    "ray.dashboard.dashboard", "ray.dashboard.agent",
    "ray.dashboard.http_server_agent", "ray._private.runtime_env.agent.main", "ray._common.pydantic_compat",
    "ray.dag.compiled_dag_node",
)  # fmt: skip
"""What is imported by default. Not wandb: it makes a temporary folder on import and removes it when a process ends."""
_HANDED_OVER = "HARNESS_HANDED_OVER"
_HOST = "harness.trainer.cpu.forkhost"
_LONGEST_SOCKET = 100  # bytes; the kernel's limit is 108
_LONGEST_SHEBANG = 127  # bytes; of older kernels


@dataclass(slots=True)
class ForkServer:
    """The owner's end of a fork server."""

    folder: Path
    """Private folder (0700) with the socket, the stand-in for Python and the server's log."""
    process: subprocess.Popen[bytes]
    """The server."""

    @classmethod
    def start(cls, environment: Mapping[str, str] | None = None, modules: Sequence[str] = MODULES) -> ForkServer:
        """Spawns a server and returns at once; requests made while it still imports wait for it.

        Args:
            environment: what the runs will have in common: the server declines whoever differs in a variable that the
                imports depend on. Default: this process's.
            modules: what to import, in this order.
        """
        folder = Path(tempfile.mkdtemp(prefix="harness-fork-"))  # 0700: the socket is for this user alone
        if len(os.fsencode(folder)) > _LONGEST_SOCKET - len("/socket"):
            folder.rmdir()
            folder = Path(tempfile.mkdtemp(prefix="harness-fork-", dir="/tmp"))
        (folder / "python").write_text(_stand_in())
        (folder / "python").chmod(0o700)
        variables = dict(os.environ if environment is None else environment)
        variables.pop(forkclient.VARIABLE, None)
        # Listening from here on, so that a run that is started next finds the socket.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, (folder / "log").open("wb") as logfile:
            listener.bind(str(folder / "socket"))
            listener.listen(128)
            number = listener.fileno()
            process = subprocess.Popen(
                [sys.executable, "-m", _HOST, str(folder), str(number), *modules], env=variables,
                stdin=subprocess.PIPE, stdout=logfile, stderr=logfile, start_new_session=True, pass_fds=[number],
            )  # fmt: skip
        return cls(folder, process)

    def environment(self) -> dict[str, str]:
        """What to add to the environment of a run."""
        return {forkclient.VARIABLE: str(self.folder / "socket")}

    def close(self) -> None:
        """Ends the server and removes its folder; runs that are still going are not touched. Safe to call again."""
        self.process.terminate()  # it may be in the middle of an import
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def for_runs(spec: Mapping[str, Any], *, wanted: bool = True) -> Iterator[Mapping[str, str]]:
    """The environment of runs that are forked from one server, which lives as long as the block; {} if not `wanted`.

    `spec` is that of any of the runs. What one of them adds to the environment, all of them do, and so must the server:
    it declines whoever differs.
    """
    if not wanted:
        yield {}
        return
    with ForkServer.start({**os.environ, **shared_variables(spec, os.environ)}) as server:
        yield server.environment()


def _stand_in() -> str:
    """Content of an executable that runs `forkclient` with the Python of this process."""
    direct = f"#!{sys.executable} -IS\n"
    if len(direct) <= _LONGEST_SHEBANG and len(sys.executable.split()) == 1:
        return direct + Path(forkclient.__file__).read_text(encoding="utf-8")
    # The shell adds PWD and the like to the environment, which no harm is known of.
    command = shlex.join([sys.executable, "-I", "-S", forkclient.__file__])
    return f'#!/bin/sh\nexec {command} "$@"\n'


def hand_over(module: str, arguments: Sequence[str]) -> None:
    """Has the fork server run `python -m module arguments` in place of this process; returns where it does not.

    Call it before anything heavy is imported. Ends this process with the other's exit code or signal.
    """
    path = os.environ.get(forkclient.VARIABLE)
    if path and "harness.trainer.cpu.preload" not in sys.modules:  # only the server, hence what it forked, imports that
        command = ["-m", module, *arguments]
        environment = {**os.environ, _HANDED_OVER: str(os.getpid())}
        code = forkclient.run(path, command, unbuffered=False, environment=environment)
        if code is not None:
            forkclient.end_as(code)


def this_process() -> frozenset[int]:
    """Ids of this process and of the one that handed over to it and waits: who looks for leftovers spares both."""
    return frozenset({os.getpid(), int(os.environ.get(_HANDED_OVER, os.getpid()))})


@contextlib.contextmanager
def ray_python() -> Iterator[None]:
    """While it lasts, Ray starts its processes through the fork server, if there is one (see the module's text)."""
    path = os.environ.get(forkclient.VARIABLE)
    stand_in = Path(path).parent / "python" if path else None
    if stand_in is None or not os.access(stand_in, os.X_OK):
        yield
        return
    stock, sys.executable = sys.executable, str(stand_in)
    try:
        yield
    finally:
        sys.executable = stock
