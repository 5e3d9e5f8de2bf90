"""`harness cancel RUNS [--eval]`: takes runs off the queue and off the nodes."""

from __future__ import annotations

import argparse

from harness.commands import targets
from harness.config import grid
from harness.running import evaluations
from harness.running.cancel import cancel

HELP = "cancel a sweep, a study or single runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Runs, and whether only their evaluations."""
    parser.add_argument("runs", nargs="+", metavar="RUNS", help=targets.WHICH)
    parser.add_argument("--eval", action="store_true", help="only the evaluations of these runs")


def run(arguments: argparse.Namespace) -> int:
    """The runs and their evaluations, or with --eval only these.

    A study as a whole is held, its controller too: it would start its runs again.
    """
    store = targets.store()
    runs, study = targets.runs(store, arguments.runs), targets.study(store, arguments.runs)
    if study is not None and not arguments.eval:
        from harness.search import intervention

        for line in intervention.hold(store, study):
            print(line)
    told = cancel(store, [*([] if arguments.eval else runs), *evaluations.unfinished(store, runs)])
    for run, what in told.items():
        name = evaluations.label(run) if evaluations.is_one(run) else f"{run}  {store.brief(run)['label']}"
        print(f"{name}: cancelled ({what})")
    gone = {str(store.brief(run).get("sweep", "")) for run in told if not evaluations.is_one(run)}
    for name in sorted(gone) if study is None else ():
        if name.startswith(grid.STUDIES):
            short = name.removeprefix(grid.STUDIES)
            print(f"study {short} starts its runs again while it goes on: `harness cancel {short}` stops it as a whole")
    if not told:
        print("nothing to cancel: none of these runs is queued or running")
    return 0
