"""One attempt at one run: start the trainer, watch it, end it cleanly, and say how it ended.

`python -m harness.running.supervise RUN_DIR` is the whole payload of a job, here and on a cluster: the frozen run in,
records out. It imports neither torch nor verl, so that it outlives whatever the trainer does.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any

from harness import files, secret
from harness.errors import HarnessError, told
from harness.store import claim, evidence
from harness.store.attempt import EXIT_CLAIMED, EXIT_USAGE, Around, Ended, NotReady, Surroundings, alone  # fmt: skip
from harness.store.runs import Store, now, reached
from harness.trainer import processes
from harness.trainer.environment import MARKER

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
_FLUSH_SECONDS = 15.0
"""On top of the trainer's own grace: it then ends by force and writes out what W&B has buffered."""
_PR_SET_PDEATHSIG = 1


class StopRequest:
    """Set by SIGINT or SIGTERM; the loop reads it. A second signal shortens the grace to nothing."""

    def __init__(self) -> None:
        self.count = 0
        self.limit = math.inf
        """Seconds that are left to stop in, however long the run's own grace is."""

    def ended(self) -> Ended:
        """How an attempt that was asked to stop is recorded."""
        return Ended("stopped", "", "asked to stop")

    def install(self) -> None:
        """Takes over both signals of this process."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


def supervise(
    store: Store,
    run: str,
    stop: StopRequest,
    *,
    echo: IO[str] | None = None,
    around: Surroundings = alone,
    facts: Mapping[str, Any] | None = None,
    gone: str = "",
) -> Ended:
    """Makes one attempt and records it.

    Args:
        store: where the run lives.
        run: its id.
        stop: asks the attempt to end.
        echo: gets the trainer's output as well as the attempt's log file.
        around: see Surroundings.
        facts: what else the attempt's record says, such as the job.
        gone: see `claim.take`.

    Raises: claim.Claimed where another process works on the run; HarnessError where its folder is damaged.
    """
    folder = store.folder(run)
    spec = store.spec(run)
    with claim.claimed(folder, gone):
        if (folder / "done.json").exists():
            return Ended("done", "", "")
        end_leftovers(folder)
        number = len(store.attempts(run)) + 1
        attempt = folder / "attempts" / f"{number:03d}"
        record = {"attempt": number, "started": now(), "host": claim.here().host, "pid": os.getpid()}
        record |= {"from": store.checkpoint(run), **(facts or {})}
        files.write_json(attempt / "attempt.json", record)
        store.event(run, "started", attempt=number)
        code = None
        try:
            with around(attempt) as surroundings:
                code, verdict = _train(folder, spec, number, attempt, stop, surroundings, echo)
        except NotReady as error:
            ended = error.ended
        else:
            claim.check(folder)  # whoever took over has already written about an attempt of its own
            ended = _judge(store, run, spec, code, verdict, attempt / "stdout.log")
        finally:
            processes.end(attempt, grace=3.0, exclude=frozenset([os.getpid()]))
        step = store.heartbeat(run).get("step", 0)
        record |= {"ended": now(), "exit_code": code, "outcome": ended.outcome, "step": step}
        if ended.outcome == "done":
            _complete(store, run, spec, number)
        else:
            record |= {"cause": ended.cause, "reason": ended.reason}
            if ended.nodes:
                record["bad"] = list(ended.nodes)
        files.write_json(attempt / "attempt.json", record)
        store.event(run, ended.outcome, attempt=number, step=step, reason=ended.reason)
        return ended


def _complete(store: Store, run: str, spec: Mapping[str, Any], attempts: int) -> None:
    done = {**reached(spec), "time": now(), "attempts": attempts}
    files.write_json(store.folder(run) / "done.json", done)


def _judge(
    store: Store, run: str, spec: Mapping[str, Any], code: int | None, verdict: Ended | None, logfile: Path
) -> Ended:
    """Done is what the outcomes say, never the exit code alone."""
    missing = store.unfinished_business(run, spec)
    if not missing and code == 0:
        return Ended("done", "", "")
    if verdict is not None:
        return verdict
    if code == 0:
        return Ended("failed", "unfinished", f"the trainer ended with exit code 0, but {missing}")
    found = evidence.cause(evidence.tail(logfile), code)
    return Ended("failed", found.name, evidence.told(found))


def _train(
    folder: Path,
    spec: Mapping[str, Any],
    number: int,
    attempt: Path,
    stop: StopRequest,
    around: Around,
    echo: IO[str] | None,
) -> tuple[int | None, Ended | None]:
    """(exit code of the trainer, how the attempt ended where that is known without its log)."""
    with (attempt / "stdout.log").open("ab", buffering=0) as logfile:
        for command in _commands(folder, spec, number):
            process = _start(command, attempt, around.environment)
            pump = threading.Thread(target=_pump, args=(process.stdout, logfile, echo), daemon=True)
            pump.start()
            try:
                code, verdict = _watch(process, attempt, spec["config"]["cluster"], stop, around)
            finally:
                _end_group(process)
                pump.join(timeout=10)
            if code != 0 or verdict is not None:
                return code, verdict or around.fault(True)
    return 0, None


def _commands(folder: Path, spec: Mapping[str, Any], number: int) -> list[list[str]]:
    """What is run, in order: what makes a built-in model and its data, the trainer, what an evaluation ends with."""
    grace = spec["config"]["cluster"]["grace_seconds"]
    trainer = [spec["trainer"], str(folder), "--attempt", str(number), "--grace", str(grace)]
    steps = [*spec["prepare"], trainer, *([module, str(folder)] for module in spec.get("finish", ()))]
    return [[sys.executable, "-m", *step] for step in steps]


def _start(command: list[str], attempt: Path, extra: Mapping[str, str]) -> subprocess.Popen[str]:
    environment = {**os.environ, **extra, MARKER: str(attempt), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True, preexec_fn=die_with_parent(signal.SIGKILL),
    )  # fmt: skip


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """For `preexec_fn`: the kernel sends the child this signal when its parent thread dies, even by SIGKILL.

    The child and all its children ignore SIGUSR2, which a batch system sends to every process of a job and which would
    otherwise end them: what it means is the supervisor's to decide.
    """
    libc = ctypes.CDLL(None)  # loaded before the fork: no imports between fork and exec
    parent = os.getpid()

    def child() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number))
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        if os.getppid() != parent:  # it died in between
            os.kill(os.getpid(), int(number))

    return child


def _pump(source: IO[str] | None, logfile: IO[bytes], echo: IO[str] | None) -> None:
    """Copies output to the log, secrets masked, line by line. Never stops reading: the trainer would block."""
    secrets = secret.values()
    broken = False
    for line in source or ():
        clean = secret.redact(line, secrets)
        if not broken:
            try:
                logfile.write(clean.encode())  # unbuffered: what a full disk refuses does not come back on closing
            except OSError as error:  # a full disk must not take the trainer's output pipe with it
                broken = True
                log.warning("the attempt's log cannot be written: %s", error)
        if echo is not None:
            echo.write(clean)
            echo.flush()


def _watch(
    process: subprocess.Popen[str], attempt: Path, cluster: Mapping[str, Any], stop: StopRequest, around: Around
) -> tuple[int | None, Ended | None]:
    """Waits for the end; ends it on request, when nothing has moved for too long, or when its surroundings break."""
    folder = attempt.parent.parent
    renewed = checked = progress = time.monotonic()
    first = beat = _beat(folder)
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        instant = time.monotonic()
        if stop.count:
            # Before its first sign of life there is nothing to save, so little to wait for.
            grace = min(cluster["grace_seconds"], stop.limit, 5.0 if beat == first else math.inf)
            _ask_to_end(process, grace, stop)
            return process.returncode, stop.ended()
        if (broken := around.fault(False)) is not None:
            _end_group(process)
            return process.returncode, broken
        if (latest := _beat(folder)) != beat:
            beat, progress = latest, instant
        if instant - progress > 60 * cluster["hang_minutes"]:
            _end_group(process)
            minutes = cluster["hang_minutes"]
            text = f"no progress for {minutes:g} minutes: stopped; see {attempt / 'stdout.log'}"
            return process.returncode, Ended("failed", "hang", text)
        if instant - checked > claim.CHECK_SECONDS:
            claim.check(folder)
            checked = instant
        if instant - renewed > claim.RENEW_SECONDS:
            claim.take(folder)
            renewed = instant
    return process.returncode, None


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
    """`python -m harness.running.supervise RUN_DIR`."""
    (name,) = arguments if arguments is not None else sys.argv[1:]
    folder = Path(name).resolve()
    stop = StopRequest()
    stop.install()
    try:
        return supervise(*Store.holding(folder), stop).exit_code
    except claim.Claimed as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CLAIMED
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:  # such as a full disk: how the attempt ended could not be recorded
        print(f"error: {told(error)}", file=sys.stderr)
        return EXIT_USAGE


if __name__ == "__main__":
    raise SystemExit(main())
