"""The verb `report`: from a sweep's name to its page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError, nearest

if TYPE_CHECKING:
    from analysis.run import Run


def add(verb: argparse.ArgumentParser) -> None:
    """The options of `report` beside those of the source."""
    verb.add_argument("sweep", metavar="SWEEP", help="a sweep of sweeps/, or a name for the runs that --filter selects")
    verb.add_argument("--against", metavar="ARM", help="the arm to compare with (default: the sweep's, or mean)")
    verb.add_argument("--out", metavar="FOLDER", help="where to write (default: reports/SWEEP)")
    verb.add_argument("--no-figures", action="store_true", help="leave out the PDF, SVG and PNG files")
    verb.set_defaults(act=act)


def act(options: argparse.Namespace) -> int:
    """Loads the runs, writes the page and prints its path."""
    from analysis import sweeps
    from analysis.report import write

    loaded = sweeps.load(options.sweep, options.source, options.filter)
    if options.against:
        _known(options.against, loaded.runs)
    path = write(
        loaded.sweep, loaded.runs, Path(options.out) if options.out else default_folder(loaded.sweep),
        against=options.against or loaded.against or "mean", missing=loaded.missing, question=loaded.question,
        figures=not options.no_figures,
    )  # fmt: skip
    sys.stdout.write(f"{path}\n")
    return 0


def default_folder(sweep: str) -> Path:
    """$HARNESS_REPORTS/<sweep>, or reports/<sweep> of the working folder."""
    return Path(os.environ.get("HARNESS_REPORTS") or "reports").expanduser() / sweep


def _known(against: str, runs: Sequence[Run]) -> None:
    """Raises: HarnessError where `--against` names no arm: a typing error must not compare with another arm."""
    from analysis import arms

    found = arms.group(runs)
    if arms.pick(found, against) is None:
        hint = nearest(against, [arm.label for arm in found] + [str(r.get("baseline.name", None)) for r in runs])
        raise HarnessError(f"--against {against!r}: no such arm; {hint}")
