"""Nodes that proved bad lately: no submission of the store asks for them."""

from __future__ import annotations

import datetime
from pathlib import Path

from harness import files
from harness.slurm import submission
from harness.store.runs import now

HOURS = 24.0
"""After so long a node gets another chance."""


def _path(root: Path) -> Path:
    return root / submission.FOLDER / "excluded.jsonl"


def add(root: Path, node: str, run: str, cause: str) -> None:
    """Notes a bad node."""
    files.append_json(_path(root), {"time": now(), "node": node, "run": run, "cause": cause})


def nodes(root: Path) -> list[str]:
    """The nodes noted within the last 24 hours."""
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=HOURS)
    rows, _ = files.read_json_lines(_path(root))
    found = {str(row["node"]) for row in rows if "node" in row and _moment(row.get("time")) >= since}
    return sorted(found)


def _moment(text: object) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
