"""`harness eval RUNS`: evaluates checkpoints again."""

from __future__ import annotations

import argparse

from harness.commands import targets
from harness.config.compose import project_folder

HELP = "evaluate checkpoints with more samples, as SLURM jobs or here"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Runs, which checkpoint of theirs, and how many samples."""
    parser.add_argument("runs", nargs="+", metavar="RUNS", help=targets.WHICH)
    parser.add_argument("--step", type=int, help="step of the checkpoint (default: the last)")
    parser.add_argument("--n", type=int, default=32, help="samples a problem and evaluation seed (default: 32)")
    parser.add_argument("--seeds", type=int, default=1, help="evaluation seeds (default: 1)")
    parser.add_argument("--time-limit", default="", metavar="H:MM:SS", help="of the job (default: the run's)")
    parser.add_argument("--here", action="store_true", help="in the foreground, also where the run is SLURM's")


def run(arguments: argparse.Namespace) -> int:
    """Evaluates or submits. Raises: HarnessError where one of the runs cannot be evaluated."""
    from harness.running.evaluate import Asked, evaluate

    store = targets.store()
    asked = Asked(step=arguments.step, n=arguments.n, seeds=arguments.seeds, time_limit=arguments.time_limit)
    runs = targets.runs(store, arguments.runs)
    for line in evaluate(store, runs, asked, project_folder(), here=arguments.here):
        print(line, flush=True)
    return 0
