"""The command line `python -m analysis VERB`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from harness.console import Program

PROGRAM = Program(
    "python -m analysis", "Read, compare and report training runs.",
    {"runs": "analysis.listing", "report": "analysis.report.command", "notebook": "analysis.notebook"},
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb; a mistake of the user's becomes one line on stderr and exit code 2."""
    return PROGRAM.main(sys.argv[1:] if arguments is None else arguments)
