"""Calls of SLURM's programs, with errors that say what to do."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from harness.errors import HarnessError

TIMEOUT_SECONDS = 60.0


class Unavailable(HarnessError):
    """SLURM does not answer: a program is missing, slurmctld or slurmdbd is down or too slow."""


class Refused(HarnessError):
    """SLURM answered, and refused."""


def run(
    command: Sequence[str],
    *,
    timeout: float = TIMEOUT_SECONDS,
    pass_fds: Sequence[int] = (),
    without: Sequence[str] = (),
) -> str:
    """Standard output of one of SLURM's programs.

    `pass_fds` are file descriptors that the program keeps open, so that a lock lives as long as it does; `without`
    are environment variables that it does not get. Raises: Unavailable where nothing is known about the request's
    fate; Refused where SLURM said no.
    """
    environment = {name: value for name, value in os.environ.items() if not _misleading(name) and name not in without}
    environment |= {"LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
            env=environment, pass_fds=pass_fds, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (FileNotFoundError, PermissionError):
        raise Unavailable(
            f"{command[0]} is not on PATH: run on a login node, load its SLURM module, or use cluster=local"
        ) from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} gave no answer in {timeout:g} s: the controller is busy; try again") from None
    if done.returncode == 0:
        return done.stdout
    told = _words(done.stderr or done.stdout) or f"exit code {done.returncode}"
    if "configuration source" in told or "configuration file" in told:
        raise Unavailable(f"{command[0]}: no cluster is configured here: set SLURM_CONF, or use cluster=local")
    if is_outage(told):
        who = "accounting" if "database" in told or "ersist" in told else "controller"
        raise Unavailable(f"{command[0]}: {_sign(told)}; SLURM's {who} does not answer: try again later")
    raise Refused(f"{command[0]}: {told}")


def _words(text: str) -> str:
    """What a program of SLURM's says, in one line, without its own name before every sentence."""
    lines = [re.sub(r"^\w+: (error: |fatal: )?|^allocation failure: ", "", line.strip()) for line in text.splitlines()]
    return "; ".join(" ".join(line.split()) for line in lines if line)


def _misleading(name: str) -> bool:
    """A user's defaults change what we parse, and an allocation that we run in is not the one we ask for."""
    if name.startswith(("SQUEUE_", "SACCT_", "HARNESS_SUBMISSION", "HARNESS_SNAPSHOT")):
        return True
    return name.startswith("SLURM_") and name not in ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")


_SIGNS = (
    "Unable to contact slurm controller", "Socket timed out", "Connection refused", "Zero Bytes were transmitted",
    "Unable to connect to database", "Problem talking to the database", "Transport endpoint", "Slurmctld is not",
    "backup controller", "Connection timed out",
)  # fmt: skip


def is_outage(text: str) -> bool:
    """Whether an error text means that SLURM's daemons are away, rather than that the request was wrong."""
    return any(sign in text for sign in _SIGNS)


def _sign(text: str) -> str:
    """The sentence that tells an outage; slurmdbd's absence makes three."""
    return next((part for part in reversed(text.split("; ")) if is_outage(part)), text)
