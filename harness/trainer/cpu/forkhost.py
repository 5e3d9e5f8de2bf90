"""`python -m harness.trainer.cpu.forkhost FOLDER SOCKET_FD MODULE...`: imports the modules, then forks on request.

The server has one thread, installs no signal handlers and configures no logging but its own, so that a fork starts as
clean as a started process. It ends when its standard input closes: its owner did that, or died. What it forked lives
on as long as whoever asked for it (`forkclient.run`): the kernel sees to that, whether or not the server is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import resource
import runpy
import select
import selectors
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.trainer.cpu.preload import Preloaded, preload

log = logging.getLogger("harness.trainer.cpu.forkhost")  # not __name__: that is __main__
_REQUEST_SECONDS = 10  # a request is one message of a few KB: whoever takes longer is broken
_LARGEST_REQUEST = 1 << 22  # bytes; the kernel's limit for arguments and environment is of that order


@dataclass(frozen=True, slots=True)
class Request:
    """A process that somebody wants to have, as `forkclient` describes it."""

    arguments: tuple[str, ...]
    """A script and its arguments, or `-m`, a module and its arguments."""
    unbuffered: bool
    """Whether Python was called with -u."""
    environment: Mapping[str, str]
    """All of it."""
    directory: str
    """Working directory."""
    umask: int
    """Of the process that asked, as is all below."""
    nice: int
    """Niceness, -20..19."""
    limits: Mapping[str, tuple[int, int]]
    """Name without RLIMIT_ -> (soft, hard)."""
    affinity: tuple[int, ...]
    """CPUs it may use."""
    descriptors: tuple[int, ...]
    """Standard input, output and error, and the lifeline: a pipe that closes when the process that asked is gone."""
    connection: socket.socket
    """Kept open by the forked process too: it closes for the one that asked when server and process are both gone."""


def receive(connection: socket.socket) -> Request:
    """Reads one request. Raises: OSError, ValueError, KeyError, TypeError for anything else."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] != os.getuid():  # the folder is private already
        raise PermissionError("a request of another user")
    connection.settimeout(_REQUEST_SECONDS)
    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 4)
    try:
        while not message.endswith(b"\n"):
            part = connection.recv(1 << 16)
            if not part or len(message) > _LARGEST_REQUEST:
                raise ValueError("a request without an end")
            message += part
        if len(descriptors) != 4:
            raise ValueError("a request without its four descriptors")
        content = json.loads(message)
        content["arguments"] = tuple(content["arguments"])
        return Request(**content, descriptors=tuple(descriptors), connection=connection)
    except BaseException:  # whatever it was, the descriptors are ours to close
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def serve(listener: socket.socket, preloaded: Preloaded) -> Request | None:
    """Answers requests. Returns None in the server, at its end, and the request in each process that it forked."""
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    forked: dict[int, tuple[int, socket.socket]] = {}  # process's pidfd -> its id and who waits for it
    while True:
        for key, _ in selector.select():
            if key.fd == sys.stdin.fileno():
                return None
            if key.fd in forked:
                selector.unregister(key.fd)
                os.close(key.fd)
                pid, waiting = forked.pop(key.fd)
                _answer(waiting, exit=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                waiting.close()
                continue
            connection, _ = listener.accept()
            try:
                request = receive(connection)
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.warning("not understood: %s", error)
                connection.close()
                continue
            objection = preloaded.objection(request.environment)
            pid = -1 if objection else os.fork()
            if pid == 0:
                for descriptor in list(forked):
                    os.close(descriptor)
                    forked[descriptor][1].close()
                selector.close()
                listener.close()
                return request
            for descriptor in request.descriptors:
                os.close(descriptor)
            if objection:
                log.warning("declined %s: %s", " ".join(request.arguments[:2]), objection)
                _answer(connection, declined=objection)
                connection.close()
                continue
            _answer(connection, pid=pid)
            process = os.pidfd_open(pid)
            forked[process] = pid, connection
            selector.register(process, selectors.EVENT_READ)


def _answer(connection: socket.socket, **content: Any) -> None:
    with contextlib.suppress(OSError):  # nobody is waiting any more
        connection.sendall(json.dumps(content).encode() + b"\n")


def become(request: Request, preloaded: Preloaded) -> None:
    """Makes this forked process what the request describes, up to the point where Python starts its script."""
    os.setsid()
    *standard, lifeline = request.descriptors
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    _die_with(lifeline)
    request.connection.settimeout(None)
    os.chdir(request.directory)
    os.umask(request.umask)
    for name, (soft, hard) in request.limits.items():
        with contextlib.suppress(ValueError, OSError):  # a hard limit above the server's cannot be had
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (soft, hard))
    with contextlib.suppress(PermissionError):  # below the server's niceness
        os.setpriority(os.PRIO_PROCESS, 0, request.nice)
    os.sched_setaffinity(0, request.affinity)
    os.environ.clear()
    os.environ.update({**request.environment, **preloaded.set_by_imports()})
    preloaded.renew()
    unbuffered = request.unbuffered or bool(request.environment.get("PYTHONUNBUFFERED"))
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty(), write_through=unbuffered)  # type: ignore[union-attr]
    sys.stderr.reconfigure(line_buffering=True, write_through=unbuffered)  # type: ignore[union-attr]
    sys.orig_argv = [sys.executable, *request.arguments]


def _die_with(lifeline: int) -> None:
    """Has the kernel kill this process as soon as the other end of a pipe is closed, even if it hangs in C code."""
    os.set_inheritable(lifeline, False)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # it was closed before the kernel was told
        os.kill(os.getpid(), signal.SIGKILL)


def run(request: Request) -> None:
    """Runs the request's script or module as `python` does."""
    first, *rest = request.arguments
    if first == "-m":
        sys.argv = ["-m", *rest[1:]]
        _first_on_path(request.directory)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *rest]
        _first_on_path(os.path.dirname(os.path.abspath(first)))
        runpy.run_path(first, run_name="__main__")


def _first_on_path(folder: str) -> None:
    if not sys.flags.safe_path:  # what it replaces is the server's working directory
        sys.path[0] = folder


def main() -> None:
    """The server; and, in the processes that it forked, whatever they are to run."""
    folder, number, *modules = sys.argv[1:]
    handler = logging.StreamHandler()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False  # the root logger belongs to what is forked
    listener = socket.socket(fileno=int(number))  # requests queue here during the imports
    listener.set_inheritable(False)
    begin = time.monotonic()
    preloaded = preload(modules)
    log.info("%d modules in %.1f s; %s", len(sys.modules), time.monotonic() - begin, preloaded.fault or "ready")
    request = serve(listener, preloaded)
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)  # in case the owner cannot any more
        return
    log.removeHandler(handler)
    log.propagate = True
    log.setLevel(logging.NOTSET)
    become(request, preloaded)
    run(request)


if __name__ == "__main__":
    main()
