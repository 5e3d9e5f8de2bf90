"""The journal's file: mended before it is written, and read without leaving a mark."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError

if TYPE_CHECKING:
    import optuna

log = logging.getLogger(__name__)


def mend(path: Path) -> None:
    """Cuts off what a killed writer or a power cut left at the end: the next line would be appended to it.

    What is cut goes to `journal.log.damaged`. Raises: HarnessError where good lines follow a damaged one.
    """
    try:
        with path.open("rb+") as file:
            data = file.read()
            good = _sound(path, data)
            if good == len(data):
                return
            log.warning("%s: the damaged end that a killed controller left is cut off", path)
            with path.with_name(f"{path.name}.damaged").open("ab") as kept:
                kept.write(data[good:])
            file.truncate(good)
            os.fsync(file.fileno())
    except FileNotFoundError:
        return


def lines(path: Path) -> list[dict[str, Any]]:
    """All sound lines; a damaged end is left out. Raises: as `mend`."""
    data = path.read_bytes()
    return [json.loads(line) for line in data[: _sound(path, data)].splitlines()]


def _sound(path: Path, data: bytes) -> int:
    """Bytes up to the damaged end."""
    good, bad = 0, 0
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        if not _is_entry(line):
            bad = bad or number
        elif bad:
            raise HarnessError(
                f"{path}: line {bad} is damaged: restore the file, or move {path.parent} away and start again; finished"
                " runs are taken over"
            )
        else:
            good += len(line)
    return good


def _is_entry(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line.decode("utf-8")), dict)
    except ValueError:
        return False


def onlooker(path: Path) -> optuna.storages.BaseStorage:
    """The journal as Optuna's storage for who only reads: no mark, no lock, no permission to write."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import BaseJournalBackend

    class Reading(BaseJournalBackend):
        def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
            yield from lines(path)[log_number_from:]

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            raise RuntimeError(f"{path} was opened for reading")

    return JournalStorage(Reading())
