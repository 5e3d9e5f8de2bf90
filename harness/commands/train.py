"""`harness train key=value ...`: one training here; with --multirun Hydra's multirun."""

from __future__ import annotations

import argparse

HELP = "train one run here, in the foreground, with Hydra overrides: train baseline=qae baseline.K=0.4"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Hydra's overrides."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides over conf/")
    parser.add_argument(
        "-m", "--multirun", action="store_true",
        help="Hydra's multirun: key=a,b; with hydra/launcher=harness in parallel",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 where the run is done, 1 where it failed, 130 where it was interrupted."""
    if arguments.multirun:
        from harness.commands import multirun

        return multirun.run(arguments.overrides)
    from harness.running.apply import train

    return train(arguments.overrides)
