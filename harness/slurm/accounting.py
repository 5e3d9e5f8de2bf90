"""What SLURM's accounting remembers of jobs: every attempt, how it ended, what it used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.slurm import command

_FIELDS = ("JobID", "JobName", "State", "ExitCode", "ElapsedRaw", "AllocTRES", "NodeList", "Start", "End", "Reason")
_BATCH = 200
"""Job ids a call: longer command lines are refused by some sites."""
ENDED = (
    "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
    "REVOKED",
)  # fmt: skip
_TASK = re.compile(r"(\d+)_\[?([\d,\-]+)[%\d]*\]?")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one array task: a requeued job has several under one id."""

    job: str
    """`1234_3`."""
    name: str
    state: str
    """First word of SLURM's, such as COMPLETED, FAILED, CANCELLED, NODE_FAIL, REQUEUED."""
    exit_code: str
    """`code:signal`."""
    seconds: int
    gpus: int
    cpus: int
    nodes: str
    reason: str

    @property
    def ended(self) -> bool:
        """Whether this is a final state."""
        return self.state in ENDED

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of this attempt; 0 on the CPU platform."""
        return self.gpus * self.seconds / 3600


def attempts(arrays: Iterable[str]) -> list[Attempt]:
    """All attempts of these job arrays, oldest first.

    Raises: command.Unavailable or command.Refused where accounting is off or away.
    """
    wanted = sorted(set(arrays))
    found: list[Attempt] = []
    for first in range(0, len(wanted), _BATCH):
        found += _ask(["--jobs", ",".join(wanted[first : first + _BATCH])])
    return found


def named(name: str) -> list[Attempt]:
    """Attempts of the jobs of one name in the last week. Raises: as `attempts` does."""
    return _ask(["--name", name, "--starttime", "now-7days"])


def _ask(what: Sequence[str]) -> list[Attempt]:
    # --duplicates: without it only the last attempt of a requeued job shows. -X: no steps.
    return parse(
        command.run(
            ["sacct", "--duplicates", "-X", "--noheader", "--parsable2", f"--format={','.join(_FIELDS)}", *what]
        )
    )


def parse(text: str) -> list[Attempt]:
    """The attempts in sacct's output of our format."""
    found = []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(_FIELDS):
            continue
        row = dict(zip(_FIELDS, fields, strict=True))
        for job in _tasks(row["JobID"]):
            found.append(
                Attempt(
                    job, row["JobName"], row["State"].split()[0] if row["State"] else "", row["ExitCode"],
                    int(row["ElapsedRaw"] or 0), _count(row["AllocTRES"], "gres/gpu"), _count(row["AllocTRES"], "cpu"),
                    "" if row["NodeList"] == "None assigned" else row["NodeList"], row["Reason"],
                )
            )  # fmt: skip
    return found


def _tasks(job: str) -> list[str]:
    """`1_[0-2]` stands for tasks that never started."""
    match = _TASK.fullmatch(job)
    if match is None:
        return [job]
    indices: list[str] = []
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        indices += [str(i) for i in range(int(first), int(last or first) + 1)]
    return [f"{match[1]}_{index}" for index in indices]


def _count(tres: str, name: str) -> int:
    """The number in `cpu=4,gres/gpu=2,...`; a typed entry counts where there is no plain one."""
    entries = [entry.partition("=") for entry in tres.split(",")]
    plain = [value for key, _, value in entries if key == name]
    typed = [value for key, _, value in entries if key.startswith(f"{name}:")]
    return sum(int(value) for value in plain or typed if value.isdigit())
