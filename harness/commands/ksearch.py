"""`harness ksearch STUDY`: finds K."""

from __future__ import annotations

import argparse

HELP = "search for the best K: run or resume a study of sweeps/search"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A study, and how far to go."""
    parser.add_argument("study", metavar="STUDY", help="a file of sweeps/search")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="overrides, of cluster and tracking only")
    parser.add_argument("--once", action="store_true", help="do one step and return, for cron; the runs keep going")
    parser.add_argument("--no-report", action="store_true", help="do not write the report at the end")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 where the study is over or goes on by itself, 1 where no trial gave a value, 130 where interrupted."""
    from harness.search.loop import ksearch

    return ksearch(arguments.study, arguments.overrides, once=arguments.once, report=not arguments.no_report)
