"""How the nodes of one job find each other: small files in the run's folder, which all of them share.

    <run>/job/<job id>.<restart>/head.json, joined.1, failed.1, stop, left.1

Nothing is left of it when the job has ended well. Its owner alone can read it: it holds the token of the job's Ray.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import files

_LEAVE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Meeting:
    """The meeting place of one attempt of one job."""

    folder: Path

    @classmethod
    def of(cls, run_folder: Path, number: str, restart: int) -> Meeting:
        """Every attempt of a job has its own, so that files of an earlier one are never taken for this one's."""
        return cls(run_folder / "job" / f"{number}.{restart}")

    def open(self) -> None:
        """Makes it; only the leading node does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def close(self) -> None:
        """Removes it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.parent.rmdir()
        except OSError:
            return  # another job's is there

    def dismiss(self, nodes: int) -> None:
        """Ends it. Nodes that were never told where to join are waited for: they would go on waiting for us."""
        self.say("stop")
        if "head.json" not in self.names():
            self.wait_for({f"left.{rank}" for rank in range(1, nodes)}, _LEAVE_SECONDS)
        self.close()

    def clear_others(self) -> None:
        """Removes what killed jobs of the run have left behind; only for who holds the run's claim."""
        for place in self.folder.parent.iterdir():
            if place != self.folder:
                shutil.rmtree(place, ignore_errors=True)

    def say(self, name: str, content: Mapping[str, Any] | None = None) -> None:
        """Makes a file appear, whole, for the others; after the end of the meeting nobody listens."""
        if self.folder.is_dir():
            files.write_json(self.folder / name, dict(content or {}))

    def names(self) -> set[str]:
        """The files that are there.

        The folder is listed, not asked for single names: NFS remembers for a while that a name did not exist.
        """
        try:
            return {name for name in os.listdir(self.folder) if not name.startswith(".")}
        except FileNotFoundError:
            return set()

    def read(self, name: str) -> dict[str, Any] | None:
        """Content of a file, None while it is not there."""
        if name not in self.names():
            return None
        try:
            content: dict[str, Any] = files.read_json(self.folder / name)
        except FileNotFoundError:
            return None
        return content

    def failures(self) -> list[dict[str, Any]]:
        """What other nodes reported."""
        found = (self.read(name) for name in sorted(self.names()) if name.startswith("failed."))
        return [content for content in found if content is not None]

    def wait_for(self, wanted: set[str], seconds: float) -> bool:
        """Whether all these files appeared in time."""
        deadline = time.monotonic() + seconds
        while not wanted <= self.names():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True
