"""The command line: one function a verb; what a verb needs is imported inside it, so that every verb starts fast."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from harness.errors import HarnessError, nearest

EXIT_FAILED, EXIT_ERROR, EXIT_INTERRUPTED = 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise HarnessError(f"{self.prog}: {message}; see `{self.prog} --help`")


def _plan(arguments: argparse.Namespace) -> int:
    from harness import estimates, report_text
    from harness.compose import project_folder
    from harness.plan import plan, summary
    from harness.store import Store
    from harness.sweep import load

    project = project_folder()
    sweep = load(arguments.sweep)
    entries = plan(sweep, Store.default(project), project)
    print("\n\n".join([report_text.plan(sweep, entries), *estimates.lines(entries), summary(entries)]))
    return 0


def _sweep(arguments: argparse.Namespace) -> int:
    from harness.apply import apply

    return apply(arguments.sweep, report=not arguments.no_report)


def _train(arguments: argparse.Namespace) -> int:
    from harness.apply import train

    return train(arguments.overrides)


def _status(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from harness import progress
    from harness.compose import project_folder
    from harness.store import Store, ids_of

    store = Store.default(project_folder())
    runs = ids_of(store, arguments.sweep) if arguments.sweep else store.ids()
    if not runs:
        print(f"no runs in {store.root} yet: start some with `harness sweep smoke`")
        return 0
    rows = [progress.row(store, run) for run in runs if store.state(run).kind != "absent"]
    Console(width=None if sys.stdout.isatty() else 160).print(progress.table(rows, arguments.sweep or str(store.root)))
    for r in rows:
        if r.state.kind in ("failed", "stopped"):
            print(f"{r.id}  {r.label}: {r.state.reason}")
    return 0


def _why(arguments: argparse.Namespace) -> int:
    from harness import report_text
    from harness.compose import project_folder
    from harness.store import Store

    store = Store.default(project_folder())
    a, b = (store.spec(store.find(prefix)) for prefix in (arguments.a, arguments.b))
    print(report_text.why(a, b))
    return 0


def _data(arguments: argparse.Namespace) -> int:
    from harness.compose import project_folder
    from harness.data import command

    print(command.run(arguments, project_folder()))
    return 0


VERBS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "plan": (_plan, "what `sweep` would do, and why; changes nothing"),
    "sweep": (_sweep, "apply a sweep: start what is missing, go on where it stopped, write the report"),
    "train": (_train, "one training here in the foreground, Hydra-style: train baseline=qae baseline.K=0.4"),
    "status": (_status, "the state of all runs, or of one sweep's"),
    "why": (_why, "what differs between two runs"),
    "data": (_data, "training and evaluation sets: prepare NAME [--from FILE], show NAME 3, list"),
}


def parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    root = _Parser(prog="harness", description="Ablations of advantage baselines on verl.")
    verbs = root.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    made = {name: verbs.add_parser(name, help=text, description=text) for name, (_, text) in VERBS.items()}
    for name in ("plan", "sweep"):
        made[name].add_argument("sweep", nargs="?", default="smoke", help="a file of sweeps/ (default: smoke)")
    made["sweep"].add_argument("--no-report", action="store_true", help="leave out the report at the end")
    made["train"].add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides over conf/")
    made["status"].add_argument("sweep", nargs="?", help="only the runs of this sweep")
    made["why"].add_argument("a", help="run id, or the first digits of it")
    made["why"].add_argument("b", help="another")
    _data_arguments(made["data"])
    return root


def _data_arguments(parser: argparse.ArgumentParser) -> None:
    from harness.data.command import add_arguments

    add_arguments(parser)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb; returns the exit code: 0 well, 1 a run failed, 2 something the user must mend, 130 interrupted."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and not words[0].startswith("-") and words[0] not in VERBS:
            raise HarnessError(f"no verb {words[0]!r}; {nearest(words[0], VERBS)}; see `harness --help`")
        parsed = parser().parse_args(words)
        if parsed.verb is None:
            parser().print_help()
            return 0
        return VERBS[parsed.verb][0](parsed)
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # a closed pager is no error
        return 0
    except OSError as error:
        print(f"error: {_told(error)}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _told(error: OSError) -> str:
    """An operating-system error in one line with its remedy."""
    remedy = {
        errno.ENOSPC: "free some space, or set HARNESS_RUNS to a folder with room",
        errno.EDQUOT: "your quota is used up: set HARNESS_RUNS to a folder with room",
        errno.EACCES: "check its owner and mode with ls -l, or set HARNESS_RUNS to a folder of yours",
        errno.EROFS: "the file system is read-only: set HARNESS_RUNS to a folder that can be written",
    }.get(error.errno or 0, "nothing was lost; the same command goes on where it stopped")
    return f"{error.filename or 'operating system'}: {error.strerror or error}; {remedy}"
