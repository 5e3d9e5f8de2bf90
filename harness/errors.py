"""The one error type that a user is meant to read."""

from __future__ import annotations

import difflib
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
