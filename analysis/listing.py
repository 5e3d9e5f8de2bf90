"""The verb `runs`: what a source holds. And the options of every verb that reads one."""

from __future__ import annotations

import argparse
import logging
import sys

HELP = "list the runs of a source"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A source."""
    add_source(parser)
    parser.add_argument("--metrics", action="store_true", help="list the metrics of each run too")


def add_source(parser: argparse.ArgumentParser) -> None:
    """The options that say which runs to read, the same for every verb."""
    parser.add_argument(
        "--source",
        default="local",
        help="local[:FOLDER] (default; runs/ or $HARNESS_RUNS), harness[:ROOT], wandb:ENTITY/PROJECT, csv:FILE or "
        "console:FILE",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log what is read and skipped")
    parser.add_argument(
        "--filter",
        default="",
        metavar="FILTER",
        help="key=value,... over the config and state, group, tags, name (a|b, !=, <, >=), or W&B's JSON form",
    )


def configure_logging(options: argparse.Namespace) -> None:
    """What is read and skipped is told on request."""
    logging.basicConfig(level=logging.INFO if options.verbose else logging.ERROR, format="%(message)s")


def run(options: argparse.Namespace) -> int:
    """Prints a line a run."""
    configure_logging(options)
    from analysis.sources import filters, loading

    runs = loading.load(options.source, filters.parse(options.filter) if options.filter else None)
    named = any(run.label != run.id for run in runs)
    rows = [("id", "label", "state", "steps", "metrics", "created")]
    for run in runs:
        created = run.created.strftime("%Y-%m-%d %H:%M") if run.created else ""
        last = "" if run.last_step is None else str(run.last_step)
        rows.append((run.id, run.label, run.state, last, str(len(run.metrics)), created))
    shown = [column for column in range(len(rows[0])) if column != 1 or named]  # files have no names beside their ids
    widths = [max(len(row[column]) for row in rows) for column in shown]
    out = sys.stdout.write
    for number, row in enumerate(rows):
        out("  ".join(row[column].ljust(width) for column, width in zip(shown, widths, strict=True)).rstrip() + "\n")
        if number:
            run = runs[number - 1]
            for note in run.notes:
                out(f"    note: {note}\n")
            if options.metrics:
                for name in run.metrics:
                    out(f"    {name}\n")
    return 0
