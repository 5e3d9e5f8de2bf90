"""A stand-in for `python` that has a fork server run its command; a plain start of Python where there is none.

Ray's processes are started by this file instead of by Python itself (see `forkserver.ray_python`). It is run with
`python -I -S`, imports a few modules of the standard library and nothing of this package, and is up in 30 ms. It sends
what makes a process (arguments, environment, working directory, standard streams, limits) to the server, then waits,
passes signals on, and ends as the forked process ended. Whatever is in the way (no server, a server that declines, a
command that is none of Ray's), it becomes the plain Python that was asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import signal
import socket
import sys

VARIABLE = "HARNESS_FORK_SERVER"
"""Environment variable with the path of the server's socket; unset switches everything off."""
SETUP_WORKER = "ray/_private/workers/setup_worker.py"
_AGENTS = ("ray/dashboard/agent.py", "ray/_private/runtime_env/agent/main.py")
_PIPE_CHECK = "RAY_enable_pipe_based_agent_to_parent_health_check"
FORKED = (
    SETUP_WORKER, "ray/_private/log_monitor.py", "ray/autoscaler/_private/monitor.py", "ray/dashboard/dashboard.py",
    *_AGENTS,
)  # fmt: skip
"""Scripts of Ray's worth forking: its workers, and helpers that each take a second to start.

The two agents end unless the raylet is their parent; with RAY_enable_pipe_based_agent_to_parent_health_check=1 they
watch its end of a pipe instead. Without it they are left alone.
"""
_ANSWER_SECONDS = 120  # the server answers once it has imported everything: about 10 s, more on a busy machine
_WATCH_SECONDS = 1.0  # as often as Ray's own worker looks (RAY_raylet_death_check_interval_milliseconds)
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
_LIMITS = ("NOFILE", "CORE", "NPROC", "AS", "DATA", "STACK", "CPU", "FSIZE", "MEMLOCK")


def command_for(arguments: list[str]) -> tuple[list[str], bool, dict[str, str]] | None:
    """(script and its arguments, unbuffered, variables to add) of a Python command line; None where it is not ours.

    `setup_worker.py` adds a runtime environment's variables, then replaces itself by the worker
    (ray/_private/runtime_env/context.py, exec_worker): that is done here at once, which spares a second start of
    Python. A runtime environment that asks for more than variables is left to Ray.
    """
    unbuffered = arguments[:1] == ["-u"]
    command = arguments[1:] if unbuffered else arguments
    if not command or not command[0].endswith(FORKED):
        return None
    if command[0].endswith(_AGENTS) and os.environ.get(_PIPE_CHECK) not in ("1", "true"):
        return None
    if not command[0].endswith(SETUP_WORKER):
        return command, unbuffered, {}
    context: dict[str, object] = {}
    language, worker = "", []
    rest = iter(command[1:])
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name == "--serialized-runtime-env-context":
            context = json.loads(value if equals else next(rest, "{}"))
        elif name == "--language":
            language = value if equals else next(rest, "")
        else:
            worker.append(argument)
    variables = context.pop("env_vars", None) or {}
    python = context.pop("py_executable", None) or sys.executable
    if language != "PYTHON" or python != sys.executable or any(context.values()) or not worker:
        return None
    if not isinstance(variables, dict) or not worker[0].endswith(".py"):
        return None
    return worker, unbuffered, variables


def expanded(variables: dict[str, str], environment: dict[str, str]) -> dict[str, str]:
    """`environment` with a runtime environment's variables, `${X}` replaced (ray/_private/utils.py, update_envs)."""
    result = dict(environment)
    for key, value in variables.items():
        result[key] = re.sub(r"\$(\w+|\{[^}]*\})", lambda m: _variable(m, result), value)
    return result


def _variable(match: re.Match[str], environment: dict[str, str]) -> str:
    name = match.group(1).strip("{}")
    unknown = "" if re.fullmatch(r"\{[A-Z0-9_]+\}", match.group(1)) else match.group(0)
    return environment.get(name, unknown)


def run(path: str, arguments: list[str], *, unbuffered: bool, environment: dict[str, str]) -> int | None:
    """Has the server at socket `path` run `arguments` (a script, or `-m` and a module) and waits for the end.

    Returns: the exit code, negative for a signal as in subprocess; None where the server did not take it.
    """
    lifeline, kept_open = os.pipe()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    answers = connection.makefile("rb")
    try:
        connection.settimeout(_ANSWER_SECONDS)
        connection.connect(path)
        message = json.dumps(_description(arguments, unbuffered, environment)).encode() + b"\n"
        # The kernel kills the forked process when `kept_open` closes, that is when this process is gone.
        sent = socket.send_fds(connection, [message], [0, 1, 2, lifeline])
        connection.sendall(message[sent:])
        answer = json.loads(answers.readline() or b"{}")
        process = os.pidfd_open(answer["pid"]) if "pid" in answer else None
    except (OSError, ValueError):  # no server, one that died while it answered, or something else at that path
        process = None
    finally:
        os.close(lifeline)
    if process is None:
        os.close(kept_open)
        connection.close()
        return None
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _frame: _pass_on(process, number))
    # A worker of Ray's ends with its raylet, which started this process; see `preload.DURING`.
    raylet = os.getppid() if environment.get("RAY_RAYLET_PID") == str(os.getppid()) else None
    while not select.select([connection], [], [], _WATCH_SECONDS if raylet else None)[0]:
        if os.getppid() != raylet:
            os._exit(1)
    try:
        return int(json.loads(answers.readline() or b"{}").get("exit", 1))
    except OSError:  # the server is gone, and the process that it forked as well, for it held the other end
        return 1


def _pass_on(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended: its exit code is on the way
        signal.pidfd_send_signal(process, number)


def _description(arguments: list[str], unbuffered: bool, environment: dict[str, str]) -> dict[str, object]:
    """Everything that a process inherits from its parent, except what goes through the socket itself."""
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in _LIMITS}
    umask = os.umask(0)
    os.umask(umask)
    return {
        "arguments": arguments, "unbuffered": unbuffered, "environment": environment, "directory": os.getcwd(),
        "umask": umask, "nice": os.getpriority(os.PRIO_PROCESS, 0), "limits": limits,
        "affinity": sorted(os.sched_getaffinity(0)),
    }  # fmt: skip


def end_as(code: int) -> None:
    """Ends this process with an exit code, or by the signal that a negative one stands for. Does not return."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the core to look at is the other process's
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 255)


def main() -> None:
    """Runs what follows on the command line as `python` would."""
    arguments = sys.argv[1:]
    path = os.environ.get(VARIABLE)
    ours = command_for(arguments) if path else None
    if path and ours:
        command, unbuffered, variables = ours
        code = run(path, command, unbuffered=unbuffered, environment=expanded(variables, dict(os.environ)))
        if code is not None:
            end_as(code)
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
