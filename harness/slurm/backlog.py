"""Runs that a submit limit keeps from the queue. The jobs that end submit them, so that nobody has to wait."""

from __future__ import annotations

import getpass
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from harness import files
from harness.slurm import submission


def _path(root: Path) -> Path:
    return root / submission.FOLDER / "backlog.json"


def entries(root: Path) -> list[dict[str, Any]]:
    """{run, sweep, user} of every waiting run, oldest first."""
    try:
        content = files.read_json(_path(root))
    except FileNotFoundError:
        return []
    return list(content["runs"])


def add(root: Path, runs: Iterable[str], sweep: str) -> None:
    """Adds runs; one that is there already keeps its place. Inside the gate."""
    there = entries(root)
    known = {entry["run"] for entry in there}
    new = [{"run": run, "sweep": sweep, "user": getpass.getuser()} for run in runs if run not in known]
    if new:
        files.write_json(_path(root), {"runs": there + new})


def remove(root: Path, runs: Collection[str]) -> list[str]:
    """Takes runs out and returns those that were in. Inside the gate."""
    there = entries(root)
    gone = [entry["run"] for entry in there if entry["run"] in runs]
    if gone:
        files.write_json(_path(root), {"runs": [entry for entry in there if entry["run"] not in runs]})
    return gone


def waiting(root: Path) -> set[str]:
    """Ids of all waiting runs."""
    return {entry["run"] for entry in entries(root)}


def mine(root: Path) -> dict[str, list[str]]:
    """Sweep -> the runs of this user: nobody submits under another's account."""
    me = getpass.getuser()
    found: dict[str, list[str]] = {}
    for entry in entries(root):
        if entry["user"] == me:
            found.setdefault(entry["sweep"], []).append(entry["run"])
    return found
