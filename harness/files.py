"""Files that a killed process never leaves half-written."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on a clean exit its content is on disk under the final name.

    The name appears at once or not at all. On an error or a kill the old content stays; a temporary file of a killed
    writer starts with a dot and is never read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk does not say what was being written
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    # os.umask can only be read by setting it; /proc has it without the race between threads.
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def write_text(path: Path, text: str) -> None:
    """Writes `text` to `path` atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(_encoded(text))


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as JSON to `path` atomically, keys in the order given."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _encoded(text: str) -> bytes:
    # Half a surrogate pair, from a command line or a log that is no UTF-8, becomes its escape, which JSON reads back.
    return text.encode("utf-8", errors="backslashreplace")


def append_json(path: Path, value: Mapping[str, Any]) -> None:
    """Appends one JSON line. A torn last line of a killed writer is closed first, so that it spoils only itself."""
    data = _encoded(json.dumps(value, ensure_ascii=False) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            data = b"\n" + data
        os.write(handle, data)  # one write call: lines of two processes do not mix
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        os.close(handle)


def read_json(path: Path) -> Any:
    """Reads JSON; a damaged file is a `HarnessError` that names it, an absent one a `FileNotFoundError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from None
    except PermissionError:
        raise HarnessError(f"{path} cannot be read: no permission; check its owner with ls -l") from None


def read_mapping(path: Path) -> dict[str, Any]:
    """As `read_json`; a file that holds anything but an object is damaged too."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise _damaged(path, f"a {type(value).__name__}, where an object is expected")
    return value


def _damaged(path: Path, why: object) -> HarnessError:
    return HarnessError(f"{path} is damaged ({why}): restore it, or move its folder away to start afresh")


def read_json_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """All good lines of a JSON-lines file and the number of damaged ones; an absent file is empty."""
    rows: list[dict[str, Any]] = []
    damaged = 0
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return rows, damaged
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            damaged += 1
            continue
        if isinstance(row, dict):
            rows.append(row)
        else:
            damaged += 1
    return rows, damaged


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive advisory lock on `path` for a short critical section; freed by the kernel if we die."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)
