"""`harness report NAME`: the page of a sweep or of a study, written again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.config import grid

HELP = "write the report of a sweep or a study again: reports/NAME/index.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sweep or a study; for other people's logs there is `python -m analysis report`."""
    parser.add_argument("name", metavar="NAME", nargs="?", default="smoke", help="a sweep or a study (default: smoke)")
    parser.add_argument("--against", metavar="ARM", help="the arm to compare with (default: the sweep's, or mean)")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: reports/NAME)")
    parser.add_argument("--no-figures", action="store_true", help="do not write the PDF, SVG and PNG files")


def run(arguments: argparse.Namespace) -> int:
    """Writes the page and prints its path."""
    from analysis.report import command

    if not grid.is_study(arguments.name):
        return command.write_page(
            arguments.name, out=arguments.out, against=arguments.against, figures=not arguments.no_figures
        )
    from harness.errors import check
    from harness.search import page
    from harness.search.loop import look

    check(arguments.against is None, "--against", arguments.against, "a study names what it compares with in confirm")
    study, view, trials = look(arguments.name)
    out = Path(arguments.out) if arguments.out else command.default_folder(study.name)
    sys.stdout.write(f"{page.write(study, view, trials, out, figures=not arguments.no_figures)}\n")
    return 0
