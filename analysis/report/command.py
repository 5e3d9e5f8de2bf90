"""The verb `report`: from a sweep's name to its page."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


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
    path = write(
        loaded.sweep, loaded.runs, Path(options.out) if options.out else default_folder(loaded.sweep),
        against=loaded.baseline(options.against), missing=loaded.missing, question=loaded.question,
        figures=not options.no_figures,
    )  # fmt: skip
    sys.stdout.write(f"{path}\n")
    return 0


def default_folder(sweep: str) -> Path:
    """$HARNESS_REPORTS/<sweep>, or reports/<sweep> of the working folder."""
    return Path(os.environ.get("HARNESS_REPORTS") or "reports").expanduser() / sweep
