"""`harness score RUN`: the kept responses of an evaluation judged again, without a model."""

from __future__ import annotations

import argparse

from harness.commands import targets

HELP = "score the saved responses of a run's evaluations again, without a model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, and steps of its evaluations."""
    parser.add_argument("run", metavar="RUN", help=targets.ONE)
    parser.add_argument("--step", type=int, nargs="*", default=[], help="only these steps (default: all)")


def run(arguments: argparse.Namespace) -> int:
    """Judges, and says how many verdicts changed."""
    from harness.running.rescore import rescore

    store = targets.store()
    for result in rescore(store, store.find(arguments.run), arguments.step):
        print(f"step {result.step}: {result.rows} responses judged again, {result.changed} changed")
    return 0
