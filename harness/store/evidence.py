"""Why a run ended, from what it left behind: its log, its exit code and what SLURM's accounting says."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    "out of host memory": r"OutOfMemoryError|Cannot allocate memory|MemoryError|oom.kill|exceeded memory limit",
    "no permission": r"PermissionError|Permission denied|Read-only file system",
    "not a number": r"(loss|grad\w*|probability tensor).{0,40}\b(nan|NaN|inf)\b|diverged",
    "NCCL": r"NCCL (error|WARN)|nccl(System|Unhandled|Remote)\w*|DistBackendError|ProcessGroupNCCL.*timed? ?out",
    "node failure": (
        r"uncorrectable ECC|no CUDA-capable device|GPU has fallen off the bus|CUDA error: (unspecified launch failure"
        r"|hardware|unknown error|device not ready)|Input/output error|Stale file handle"
        r"|node (with node id|where the actor was).*(died|dead|terminated|fail)|node_died|NodeDiedError"
    ),
    "Ray start-up": (
        r"RaySystemError|Failed to (start|connect to) (the )?(GCS|raylet|Ray)|Address already in use"
        r"|Total available GPUs \d+ is less than|Ray .*did not (come up|join)"
    ),
    "configuration": (
        r"ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|InterpolationKeyError|HarnessError"
        r"|ModuleNotFoundError|ImportError|^error: "
    ),
    "data": r"DatasetGenerationError|ArrowInvalid|DataFilesNotFoundError|FileNotFoundError.*(parquet|jsonl?)\b",
}
CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(p, re.MULTILINE)) for name, p in _PATTERNS.items()
)
"""Classes of failure and what in a log tells them, first match wins."""

_STATES = {
    "CANCELLED": ("cancelled", "cancelled"),
    "TIMEOUT": ("time limit", "the time limit was reached before everything was saved"),
    "DEADLINE": ("time limit", "the job's deadline was reached"),
    "PREEMPTED": ("preempted", "another job took its nodes"),
    "NODE_FAIL": ("node failure", "a node failed"),
    "BOOT_FAIL": ("node failure", "a node did not boot"),
    "OUT_OF_MEMORY": ("out of host memory", "out of the memory that the job had asked for"),
}
"""SLURM's word for an end -> (class, text). FAILED and COMPLETED say nothing: the log does."""


_ENDED_BY = re.compile(r"(?:STEP|JOB) \S+ ON \S+ CANCELLED AT \S+(?: DUE TO ([A-Z ]+?))?(?:,.*)? \*\*\*")
"""slurmstepd's word in a job's log: there at once, when scontrol only says COMPLETING."""
_REASONS = {
    "": "CANCELLED", "TIME LIMIT": "TIMEOUT", "PREEMPTION": "PREEMPTED", "NODE FAILURE": "NODE_FAIL",
}  # fmt: skip


REMEDIES = {"out of host memory": "; ask for more: cluster.memory_gb"}
"""By class: the same whatever the run was doing."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Class of a failure and the line of the log that says why."""

    name: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What an attempt left behind whose supervisor did not live to say how it ended."""

    log: str = ""
    """Tail of the attempt's own log."""
    state: str = ""
    """State in sacct, such as `CANCELLED by 1000`; '' where accounting is off or has forgotten."""
    status: str = ""
    """ExitCode in sacct, `code:signal`."""
    words: str = ""
    """Tail of what slurmstepd and srun wrote about the job."""


def classify(traces: Traces) -> Cause:
    """The cause from SLURM's word where that decides, else from the logs; `unknown` without evidence, never a guess."""
    state = traces.state.split()[0].rstrip("+") if traces.state.strip() else ""
    if state in _STATES:
        name, text = _STATES[state]
        return Cause(name, f"SLURM: {traces.state.strip()}; {text}")
    for line in traces.words.splitlines():  # an out-of-memory kill is FAILED 0:9 where there are no cgroups
        if re.search(_PATTERNS["out of host memory"], line):
            return Cause("out of host memory", line.strip()[:400])
    for match in _ENDED_BY.finditer(traces.words):
        if (word := _REASONS.get(match[1] or "")) is not None:
            return Cause(_STATES[word][0], f"SLURM: {_STATES[word][1]}")
    code = _exit_code(traces.status)
    if state in ("FAILED", "COMPLETED") or traces.log.strip():
        found = cause(traces.log, code)
        if found.name not in ("unknown", "killed") or state == "FAILED":
            return found
    said = f"SLURM: {traces.state.strip()} {traces.status}".strip() if state else "SLURM says nothing about its end"
    return Cause("unknown", said)


def told(found: Cause) -> str:
    """Class and line for people, and what to do where that is always the same."""
    named = found.name == "unknown" or found.line.lower().startswith(found.name.lower())
    text = found.line if named else f"{found.name}: {found.line}"
    return text + REMEDIES.get(found.name, "")


def _exit_code(status: str) -> int | None:
    code, _, number = status.partition(":")
    if number.isdigit() and int(number):
        return -int(number)
    if not code.isdigit():
        return None
    return 128 - int(code) if int(code) > 128 else int(code)  # a shell says 137 for SIGKILL


def cause(log: str, exit_code: int | None) -> Cause:
    """The cause that a trainer's log names.

    Exit code 2 is ours: its one line `error: ...` was written for people. Else the last error line that is no wrapper
    of Ray's is taken; without any the last line and the exit code must do.
    """
    lines = [_RAY.sub("", _ANSI.sub("", line)).rstrip() for line in log.splitlines()]
    lines = [line for line in lines if line.strip()]
    errors = [line.strip() for line in lines if _ERROR.match(line)]
    ours = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] if exit_code == 2 else []
    told = ours or [line for line in errors if not any(w in line.partition(":")[0] for w in _WRAPPERS)] or errors
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


_SCRIPT = re.compile(r"^\S*slurm_script: line \d+: ")


def last_words(logs: Iterable[Path]) -> str:
    """The line that says most at the end of logs, the oldest of which comes first; '' where they are empty."""
    told = ""
    for path in logs:
        lines = [line.strip() for line in tail(path, 1 << 14).splitlines() if line.strip()]
        named = [line for line in lines if re.search(r"rror|denied|[Nn]o such|not found|oom", line)]
        told = (named or lines or [told])[-1]
    return _SCRIPT.sub("", told)[:400]
