"""Symbolic comparison with a bound on its time, from any thread."""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import os
import queue
import select
import subprocess
import sys
import time
from dataclasses import dataclass

from harness.errors import HarnessError

logger = logging.getLogger(__name__)

SECONDS = 5.0
"""For one comparison."""
START_SECONDS = 60.0
"""For the start of a process, which imports sympy; a busy machine takes its time."""
PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Ruling:
    """What came of a comparison."""

    equal: bool
    timed_out: bool = False


class Judge:
    """A few processes that compare expressions. Threads share it; each waits for a free process."""

    def __init__(self, processes: int = PROCESSES, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._free: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for _ in range(processes):
            self._free.put(_Worker())

    def compare(self, gold: str, answer: str) -> Ruling:
        """Whether the expressions are equal; past the time limit they are not, and the log says so."""
        worker = self._free.get()
        try:
            ruling = worker.compare(gold, answer, self._seconds)
        finally:
            self._free.put(worker)
        if ruling.timed_out:
            logger.warning("no verdict within %g s, counted as wrong: %.80r for %.80r", self._seconds, answer, gold)
        return ruling

    def close(self) -> None:
        """Ends the processes; a later comparison would start them again."""
        workers = []
        while not self._free.empty():
            workers.append(self._free.get_nowait())
        for worker in workers:
            worker.stop()
            self._free.put(worker)


class _Worker:
    """One process, started when first needed and again after it had to be stopped. Used by one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def compare(self, gold: str, answer: str, seconds: float) -> Ruling:
        if self._process is None or self._process.poll() is not None:
            self._start()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise _no_start()
        request = json.dumps({"gold": gold, "answer": answer, "seconds": seconds}).encode() + b"\n"
        try:
            process.stdin.write(request)
            process.stdin.flush()
            reply = _read_line(process.stdout.fileno(), seconds)
        except BrokenPipeError:
            reply = b""
        if reply is None or not reply:  # past its time, or ended by its limits of time and memory
            self.stop()
            return Ruling(False, timed_out=True)
        return Ruling(bool(json.loads(reply)["equal"]))

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        self._process = None

    def _start(self) -> None:
        """A process whose imports are done, so that a slow start is not a wrong answer, nor a hang a long one.

        Raises: HarnessError where it does not come up.
        """
        self.stop()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.tasks.scoring.symbolic"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if self._process.stdout is None or not _read_line(self._process.stdout.fileno(), START_SECONDS):
            self.stop()
            raise _no_start()


def _no_start() -> HarnessError:
    return HarnessError("the symbolic scorer did not start: run `python -m harness.tasks.scoring.symbolic` to see why")


def _read_line(handle: int, seconds: float) -> bytes | None:
    """One line, b"" at the end of the stream, None after so many seconds."""
    deadline = time.monotonic() + seconds
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            return None
        part = os.read(handle, 65536)
        if not part:
            return b""
        data += part
    return data


def require() -> None:
    """Raises: HarnessError where math-verify is not installed, so that its absence is no silent zero."""
    if importlib.util.find_spec("math_verify") is None:
        raise HarnessError(
            "math-verify is not installed, so answers cannot be compared: pip install -e '.[score]' "
            "(it brings sympy and latex2sympy2_extended, and leaves torch as it is)"
        )


@functools.cache
def shared() -> Judge:
    """The judge of this process."""
    require()
    return Judge()
