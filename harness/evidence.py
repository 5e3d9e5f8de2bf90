"""Why a run ended, from what it left behind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RAY = re.compile(r"^(\(\w[\w.]* pid=\d+(, ip=[\d.]+)?\)\s?)+")
_ERROR = re.compile(
    r"^\s*((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Died\w*|Failed\w*))(\([^)]*\))?\s*(:.*)?$"
)
_WRAPPERS = ("RayTaskError", "RayActorError", "ActorDiedError", "SystemExit", "KeyboardInterrupt", "WorkerCrashedError")

_PATTERNS = {
    "out of GPU memory": r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED",
    "no disk space": r"No space left on device|Disk quota exceeded|OutOfDiskError",
    "out of host memory": r"OutOfMemoryError|Cannot allocate memory|MemoryError|oom-kill|exceeded memory limit",
    "no permission": r"PermissionError|Permission denied|Read-only file system",
    "not a number": r"(loss|grad\w*|probability tensor).{0,40}\b(nan|NaN|inf)\b",
    "NCCL": r"NCCL (error|WARN)|ncclSystemError|ncclUnhandled",
    "Ray start-up": r"RaySystemError|Failed to (start|connect to) (the )?(GCS|raylet|Ray)|Address already in use",
    "configuration": r"ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|InterpolationKeyError|HarnessError",
    "data": r"DatasetGenerationError|ArrowInvalid|FileNotFoundError.*parquet",
}
CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple((name, re.compile(p)) for name, p in _PATTERNS.items())
"""Classes of failure and what in a log tells them, first match wins."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Class of a failure and the line of the log that says why."""

    name: str
    line: str


def cause(log: str, exit_code: int | None) -> Cause:
    """The cause that a trainer's log names.

    The last error line that is no wrapper of Ray's is taken; without any the last line and the exit code must do.
    """
    lines = [_RAY.sub("", _ANSI.sub("", line)).rstrip() for line in log.splitlines()]
    lines = [line for line in lines if line.strip()]
    errors = [line.strip() for line in lines if _ERROR.match(line)]
    told = [line for line in errors if not any(w in line.partition(":")[0] for w in _WRAPPERS)] or errors
    ending = f"exit code {exit_code}" if exit_code is None or exit_code >= 0 else f"killed by signal {-exit_code}"
    line = told[-1] if told else (f"{ending}; last line: {lines[-1].strip()}" if lines else f"{ending}, empty log")
    return Cause(_class(line, told, lines, exit_code), line[:400])


def _class(line: str, told: list[str], lines: list[str], exit_code: int | None) -> str:
    for text in (line, "\n".join(lines[-200:]) if told or exit_code else ""):
        for name, pattern in CLASSES:
            if pattern.search(text):
                return name
    return "killed" if exit_code is not None and exit_code < 0 and not told else "unknown"


def tail(path: Path, size: int = 1 << 18) -> str:
    """The last `size` bytes of a log as text, '' where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - size))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
