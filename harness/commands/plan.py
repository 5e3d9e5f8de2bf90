"""`harness plan [SWEEP] [key=value ...]`: what `sweep` would do, and why."""

from __future__ import annotations

import argparse
import functools

from harness.config import grid
from harness.config.compose import project_folder
from harness.planning import estimates, listing
from harness.planning.plan import plan, summary
from harness.slurm import admission, live
from harness.store.runs import Store

HELP = "show what `sweep` would do and why; changes nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sweep or a study, and overrides."""
    parser.add_argument("sweep", nargs="?", default="smoke", help="a file of sweeps/ (default: smoke)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="overrides of every point: cluster=local")


def asked(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """(sweep, overrides for all its points); `sweep cluster=local` is about the default sweep."""
    if "=" in arguments.sweep:
        return "smoke", [arguments.sweep, *arguments.overrides]
    return arguments.sweep, arguments.overrides


def run(arguments: argparse.Namespace) -> int:
    """Prints the plan. Raises: HarnessError where it could never be carried out."""
    name, overrides = asked(arguments)
    if grid.is_study(name):
        from harness.search import loop

        print(loop.plan(name, overrides))
        return 0
    project = project_folder()
    sweep, store = grid.load(name, overrides), Store.default(project)
    entries = plan(sweep, store, project, functools.partial(live.states, store))
    shown = listing.plan(sweep, entries, estimates.points(entries, store))
    print("\n\n".join([shown, *estimates.lines(entries, store), summary(entries)]), flush=True)
    admission.check(entries)
    return 0
