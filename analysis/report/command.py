"""The verb `report`: from a sweep's name to its page."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from analysis import listing

HELP = "write a sweep's figures, table and page to reports/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sweep and a source."""
    listing.add_source(parser)
    parser.add_argument(
        "sweep", metavar="SWEEP", help="a sweep of sweeps/, or a name for the runs that --filter selects"
    )
    parser.add_argument("--against", metavar="ARM", help="the arm to compare with (default: the sweep's, or mean)")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: reports/SWEEP)")
    parser.add_argument("--no-figures", action="store_true", help="leave out the PDF, SVG and PNG files")


def run(options: argparse.Namespace) -> int:
    """Loads the runs, writes the page and prints its path."""
    listing.configure_logging(options)
    return write_page(
        options.sweep, source=options.source, where=options.filter, out=options.out, against=options.against,
        figures=not options.no_figures,
    )  # fmt: skip


def write_page(
    sweep: str, *, source: str = "local", where: str = "", out: str | None = None, against: str | None = None,
    figures: bool = True,
) -> int:  # fmt: skip
    """As `run`: `source` and `where` as `analysis.sweeps.load` takes them, `out` a folder."""
    from analysis import sweeps
    from analysis.report import write

    loaded = sweeps.load(sweep, source, where)
    path = write(
        loaded.sweep, loaded.runs, Path(out) if out else default_folder(loaded.sweep),
        against=loaded.baseline(against), missing=loaded.missing, question=loaded.question, figures=figures,
    )  # fmt: skip
    sys.stdout.write(f"{path}\n")
    return 0


def default_folder(sweep: str) -> Path:
    """$HARNESS_REPORTS/<sweep>, or reports/<sweep> of the working folder."""
    return Path(os.environ.get("HARNESS_REPORTS") or "reports").expanduser() / sweep
