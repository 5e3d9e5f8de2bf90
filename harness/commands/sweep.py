"""`harness sweep [SWEEP] [key=value ...]`: applies a sweep."""

from __future__ import annotations

import argparse

from harness.commands import plan

HELP = "run a sweep: start what is missing, resume what stopped, then write the report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """As `plan`, and what is done at the end."""
    plan.add_arguments(parser)
    parser.add_argument("--no-report", action="store_true", help="do not write the report at the end")
    parser.add_argument("--prune", action="store_true", help="cancel jobs whose points are no longer in the grid")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 where all runs are done or queued, 1 where some failed, 130 where it was interrupted."""
    from harness.running.apply import apply

    name, overrides = plan.asked(arguments)
    return apply(name, overrides, report=not arguments.no_report, prune=arguments.prune)
