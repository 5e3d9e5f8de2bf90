"""The command line `harness VERB`. What a verb takes and does is in its module of harness/commands."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from harness.commands import VERBS
from harness.console import Program

PROGRAM = Program(
    "harness", "Ablations of advantage baselines on verl.", {verb: f"harness.commands.{verb}" for verb in VERBS}
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb; returns the exit code: 0 well, 1 a run failed, 2 something the user must mend, 130 interrupted."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    return PROGRAM.main(sys.argv[1:] if arguments is None else arguments)
