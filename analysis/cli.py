"""The command line: one function a verb, each imports what it needs when it runs."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from analysis import notebook
from analysis.report import command as report
from harness.errors import HarnessError, nearest, one_line, told

VERBS = ("runs", "report", "search", "notebook")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise HarnessError(f"{self.prog}: {message}; see `{self.prog} --help`")


def parser() -> argparse.ArgumentParser:
    """All verbs and their options."""
    top = _Parser(prog="python -m analysis", description="Read, compare and report training runs.")
    top.add_argument("-v", "--verbose", action="store_true", help="log what is read and skipped")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)

    runs = verbs.add_parser("runs", help="list the runs of a source")
    add_source(runs)
    runs.add_argument("--metrics", action="store_true", help="list the metrics of each run too")
    runs.set_defaults(act=list_runs)

    page = verbs.add_parser("report", help="write a sweep's figures, table and page to reports/")
    add_source(page)
    report.add(page)

    searched = verbs.add_parser("search", help="write the page of a K search to reports/")
    _search_arguments(searched)

    review = verbs.add_parser("notebook", help="run notebooks/review.ipynb on a sweep into reports/")
    add_source(review)
    notebook.add(review)
    return top


def _search_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("study", metavar="STUDY", help="a file of sweeps/search")
    verb.add_argument("--out", metavar="FOLDER", help="where to write (default: reports/STUDY)")
    verb.add_argument("--no-figures", action="store_true", help="leave out the PDF, SVG and PNG files")
    verb.set_defaults(act=_search)


def _search(options: argparse.Namespace) -> int:
    from analysis.report import searched

    return searched.act(options)


def add_source(verb: argparse.ArgumentParser) -> None:
    """The options that say which runs to read, the same for every verb."""
    verb.add_argument(
        "--source",
        default="local",
        help="local[:FOLDER] (default; runs/ or $HARNESS_RUNS), harness[:ROOT], wandb:ENTITY/PROJECT, csv:FILE or "
        "console:FILE",
    )
    verb.add_argument(
        "--filter",
        default="",
        metavar="FILTER",
        help="key=value,... over the config and state, group, tags, name (a|b, !=, <, >=), or W&B's JSON form",
    )


def list_runs(options: argparse.Namespace) -> int:
    """The verb `runs`."""
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


def _parsed(words: Sequence[str]) -> argparse.Namespace | None:
    """The options; None where only the help was asked for."""
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is not None and verb not in VERBS:
        raise HarnessError(f"no verb {verb!r}; {nearest(verb, VERBS)}; see `python -m analysis --help`")
    options, unknown = parser().parse_known_args(words)
    where = f"python -m analysis {options.verb or ''}".rstrip()
    if unknown:
        raise HarnessError(f"{where}: unrecognized arguments: {' '.join(unknown)}; see `{where} --help`")
    if options.verb is None:
        parser().print_help()
        return None
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb; a mistake of the user's becomes one line on stderr and exit code 2."""
    try:
        options = _parsed(list(sys.argv[1:] if arguments is None else arguments))
        if options is None:
            return 0
        logging.basicConfig(level=logging.INFO if options.verbose else logging.ERROR, format="%(message)s")
        return options.act(options)
    except HarnessError as error:
        sys.stderr.write(f"error: {one_line(error)}\n")
        return 2
    except BrokenPipeError:  # `... | head` closed our output: not our fault, and nothing to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        sys.stderr.write(f"error: {told(error)}\n")
        return 2
    except KeyboardInterrupt:
        return 130
