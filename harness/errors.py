"""The one error type that a user is meant to read."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Collection, Iterable


class HarnessError(Exception):
    """A mistake or a fault that the user can mend.

    The text is one line: it names the key or file, the value found, the nearest valid one and the remedy. The command
    line prints it as `error: ...` and exits with code 2, without a traceback.
    """


def check(ok: bool, key: str, value: object, remedy: str) -> None:
    """Raises: HarnessError naming the setting, its value and the remedy, unless it is in order."""
    if not ok:
        raise HarnessError(f"{key}={value}: {remedy}")


def check_choice(key: str, value: object, valid: Collection[str]) -> None:
    """Raises: HarnessError with the nearest valid value, unless it is one of them."""
    if value not in valid:
        raise HarnessError(f"{key}={value}: {nearest(str(value), valid)}")


def nearest(word: str, valid: Iterable[str], n: int = 3) -> str:
    """A hint for error texts: `did you mean a, b?`, or the valid names where none is close; empty without any."""
    names = sorted(set(valid))
    close = difflib.get_close_matches(word, names, n=n, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not names:
        return ""
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"valid: {shown}"


def one_line(error: object) -> str:
    """The text of an error in one line: what it quotes may hold line breaks."""
    return " ".join(str(error).split())


def told(error: OSError) -> str:
    """An operating-system error in one line with its remedy."""
    folder = "set HARNESS_RUNS to a folder"
    remedy = {
        errno.ENOSPC: f"free some space, or {folder} with room",
        errno.EDQUOT: f"your quota is used up: {folder} with room",
        errno.EACCES: f"check its owner and mode with ls -l, or {folder} of yours",
        errno.EPERM: f"check its owner and mode with ls -l, or {folder} of yours",
        errno.EROFS: f"the file system is read-only: {folder} that can be written",
        errno.ENOTDIR: "a part of this path is a file: move it away, or name another folder",
        errno.EISDIR: "a folder stands where a file belongs: move it away",
        errno.ENAMETOOLONG: "give a shorter name",
    }.get(error.errno or 0, "nothing was lost; the same command goes on where it stopped")
    return one_line(f"{error.filename or 'operating system'}: {error.strerror or error}; {remedy}")
