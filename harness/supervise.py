"""One attempt at one run: start the trainer, watch it, end it cleanly, and say how it ended.

`python -m harness.supervise RUN_DIR` is the whole payload of a job, here and on a cluster: the frozen run in, records
out. It imports neither torch nor verl, so that it outlives whatever the trainer does.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from harness import claim, evidence, files, secret
from harness.errors import HarnessError
from harness.store import Store, evaluation_steps, now
from harness.trainer import processes
from harness.trainer.environment import MARKER

log = logging.getLogger(__name__)

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_STOPPED, EXIT_CLAIMED = 0, 1, 2, 3, 4
_POLL_SECONDS = 0.25
_FLUSH_SECONDS = 15.0
"""On top of the trainer's own grace: it then ends by force and writes out what W&B has buffered."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    outcome: str
    """`done`, `stopped` or `failed`."""
    cause: str
    """Class of the failure, '' if it is none."""
    reason: str
    """For people; the line of the log that says why."""

    @property
    def exit_code(self) -> int:
        """What the supervising process exits with."""
        return {"done": EXIT_DONE, "stopped": EXIT_STOPPED}.get(self.outcome, EXIT_FAILED)


class StopRequest:
    """Set by SIGINT or SIGTERM; the loop reads it. A second signal shortens the grace to nothing."""

    def __init__(self) -> None:
        self.count = 0

    def install(self) -> None:
        """Takes over both signals of this process."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


def supervise(store: Store, run: str, stop: StopRequest, *, echo: IO[str] | None = None) -> Ended:
    """Makes one attempt and records it.

    `echo` gets the trainer's output as well as the attempt's log file. Raises: claim.Claimed where another process
    works on the run; HarnessError where its folder is damaged.
    """
    folder = store.folder(run)
    spec = store.spec(run)
    with claim.claimed(folder):
        if (folder / "done.json").exists():
            return Ended("done", "", "")
        end_leftovers(folder)
        number = len(store.attempts(run)) + 1
        attempt = folder / "attempts" / f"{number:03d}"
        record = {"attempt": number, "started": now(), "host": claim.here().host, "pid": os.getpid()}
        files.write_json(attempt / "attempt.json", record)
        store.event(run, "started", attempt=number)
        try:
            code, asked = _train(folder, spec, number, attempt, stop, echo)
        finally:
            end_leftovers(folder)
        ended = _judge(store, run, spec, code, asked, attempt / "stdout.log")
        step = store.heartbeat(run).get("step", 0)
        record |= {"ended": now(), "exit_code": code, "outcome": ended.outcome, "step": step}
        if ended.outcome == "done":
            _complete(store, run, spec, number)
        else:
            record |= {"cause": ended.cause, "reason": ended.reason}
        files.write_json(attempt / "attempt.json", record)
        store.event(run, ended.outcome, attempt=number, step=step, reason=ended.reason)
        return ended


def _complete(store: Store, run: str, spec: Mapping[str, Any], attempts: int) -> None:
    config = spec["config"]
    evaluation = config["evaluation"]
    due = evaluation_steps(config["steps"], evaluation["every"], evaluation["before_training"])
    done = {"step": config["steps"], "total": config["steps"], "evaluations": due, "time": now(), "attempts": attempts}
    files.write_json(store.folder(run) / "done.json", done)


def _judge(store: Store, run: str, spec: Mapping[str, Any], code: int | None, asked: str, logfile: Path) -> Ended:
    """Done is what the outcomes say, never the exit code alone."""
    missing = store.unfinished_business(run, spec)
    if not missing and code == 0:
        return Ended("done", "", "")
    if asked == "hang":
        minutes = spec["config"]["cluster"]["hang_minutes"]
        return Ended("failed", "hang", f"no progress for {minutes:g} minutes: stopped; see {logfile}")
    if asked == "stop":
        return Ended("stopped", "", "asked to stop")
    if code == 0:
        return Ended("failed", "unfinished", f"the trainer ended with exit code 0, but {missing}")
    found = evidence.cause(evidence.tail(logfile), code)
    return Ended("failed", found.name, f"{found.name}: {found.line}" if found.name != "unknown" else found.line)


def _train(
    folder: Path, spec: Mapping[str, Any], number: int, attempt: Path, stop: StopRequest, echo: IO[str] | None
) -> tuple[int | None, str]:
    """(exit code of the trainer, '' or why it was ended: 'stop' or 'hang')."""
    with (attempt / "stdout.log").open("a", encoding="utf-8") as logfile:
        for command in _commands(folder, spec, number):
            process = _start(command, attempt)
            pump = threading.Thread(target=_pump, args=(process.stdout, logfile, echo), daemon=True)
            pump.start()
            try:
                code, asked = _watch(process, folder, spec["config"]["cluster"], stop)
            finally:
                _end_group(process)
                pump.join(timeout=10)
            if code != 0 or asked:
                return code, asked
    return 0, ""


def _commands(folder: Path, spec: Mapping[str, Any], number: int) -> list[list[str]]:
    """What is run, in order: first what makes a built-in model and its data, then the trainer."""
    grace = spec["config"]["cluster"]["grace_seconds"]
    trainer = [spec["trainer"], str(folder), "--attempt", str(number), "--grace", str(grace)]
    steps = [*spec["prepare"], trainer]
    return [[sys.executable, "-m", *step] for step in steps]


def _start(command: list[str], attempt: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, MARKER: str(attempt), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True, preexec_fn=die_with_parent(signal.SIGKILL),
    )  # fmt: skip


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """For `preexec_fn`: the kernel sends the child this signal when its parent thread dies, even by SIGKILL."""
    libc = ctypes.CDLL(None)  # loaded before the fork: no imports between fork and exec
    parent = os.getpid()

    def child() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # it died in between
            os.kill(os.getpid(), int(number))

    return child


def _pump(source: IO[str] | None, logfile: IO[str], echo: IO[str] | None) -> None:
    """Copies output to the log, secrets masked, line by line. Never stops reading: the trainer would block."""
    secrets = secret.values()
    broken = False
    for line in source or ():
        clean = secret.redact(line, secrets)
        if not broken:
            try:
                logfile.write(clean)
                logfile.flush()
            except OSError as error:  # a full disk must not take the trainer's output pipe with it
                broken = True
                log.warning("the attempt's log cannot be written: %s", error)
        if echo is not None:
            echo.write(clean)
            echo.flush()


def _watch(
    process: subprocess.Popen[str], folder: Path, cluster: Mapping[str, Any], stop: StopRequest
) -> tuple[int | None, str]:
    """Waits for the end; ends it on request or when nothing has moved for too long."""
    renewed, progress = time.monotonic(), time.monotonic()
    first = beat = _beat(folder)
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        instant = time.monotonic()
        if stop.count:
            # Before its first sign of life there is nothing to save, so little to wait for.
            _ask_to_end(
                process, min(cluster["grace_seconds"], 5.0) if beat == first else cluster["grace_seconds"], stop
            )
            return process.returncode, "stop"
        if (latest := _beat(folder)) != beat:
            beat, progress = latest, instant
        if instant - progress > 60 * cluster["hang_minutes"]:
            _end_group(process)
            return process.returncode, "hang"
        if instant - renewed > claim.RENEW_SECONDS:
            claim.take(folder)
            renewed = instant
    return process.returncode, ""


def _beat(folder: Path) -> int:
    try:
        return (folder / "heartbeat.json").stat().st_mtime_ns
    except OSError:
        return 0


def _ask_to_end(process: subprocess.Popen[str], grace: float, stop: StopRequest) -> None:
    """The trainer saves at the end of its step; a second request ends it at once."""
    asked = stop.count
    process.terminate()
    deadline = time.monotonic() + grace
    while process.poll() is None and time.monotonic() < deadline and stop.count == asked:
        time.sleep(0.1)
    _end_group(process)


def _end_group(process: subprocess.Popen[str]) -> None:
    """Kills what is left of the process group and collects the leader."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_leftovers(folder: Path, grace: float = 3.0) -> None:
    """Ends every process that carries the mark of one of this run's attempts; Ray puts its own in other groups.

    The mark is the attempt's folder, so neither another run's Ray nor another user's is touched.
    """
    for attempt in sorted((folder / "attempts").glob("[0-9]*")):
        processes.end(attempt, grace=grace, exclude=frozenset([os.getpid()]))


def main(arguments: list[str] | None = None) -> int:
    """`python -m harness.supervise RUN_DIR`."""
    (name,) = arguments if arguments is not None else sys.argv[1:]
    folder = Path(name).resolve()
    stop = StopRequest()
    stop.install()
    try:
        return supervise(Store(folder.parent), folder.name, stop).exit_code
    except claim.Claimed as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CLAIMED
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE


if __name__ == "__main__":
    raise SystemExit(main())
