"""`harness advise RUN`: the published rules of thumb for K, applied to a run."""

from __future__ import annotations

import argparse

from harness.commands import targets

HELP = "apply the published rules of thumb for K to a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run."""
    parser.add_argument("run", metavar="RUN", help=f"{targets.ONE}; a run with the mean baseline is best")


def run(arguments: argparse.Namespace) -> int:
    """Prints what each rule says, with its source."""
    from analysis.counterfactual import advice, facts

    store = targets.store()
    run = store.find(arguments.run)
    spec = store.spec(run)
    found = facts.read(store.folder(run), str(spec["config"]["baseline"]["name"]))
    print(advice.text(f"{run} {spec.get('label', run)}", found))
    return 0
