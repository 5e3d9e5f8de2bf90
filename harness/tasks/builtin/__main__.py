"""`python -m harness.tasks.builtin CACHE MODEL` makes a built-in model and its data, if they are not there yet."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.errors import HarnessError
from harness.tasks.builtin.assets import ensure


def main() -> int:
    """Makes what is missing and prints where it lies."""
    cache, model = sys.argv[1:]
    try:
        print(ensure(Path(cache), model).model_path)
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
