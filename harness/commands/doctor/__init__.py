"""`harness doctor`: what would stop a run, told before the first GPU-hour. Each line ok, warning or failure."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.commands import targets
from harness.commands.doctor.findings import FAILURE, WARNING, Finding
from harness.config.compose import compose
from harness.errors import HarnessError

if TYPE_CHECKING:
    from harness.store.runs import Store

HELP = "check for whatever would stop a run here, and say how to fix it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs that are meant."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings of the runs, as for `train`")
    parser.add_argument("--job", action="store_true", help="also submit a two-minute job that checks from a node")


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 where something fails."""
    return look(targets.store(), arguments.overrides, job=arguments.job)


def look(store: Store, overrides: Sequence[str], *, job: bool = False) -> int:
    """Prints what was found for a run of these overrides; returns 1 where something fails.

    Raises: HarnessError where the overrides do not compose.
    """
    from harness.commands.doctor import checks

    composed = compose(overrides)
    slurm = composed.settings.cluster.launcher == "slurm"
    failed = _print(checks.findings(store, composed, job=job))
    if job and not slurm:
        raise HarnessError("doctor --job: there is no SLURM here: leave out --job, or run on a login node")
    if job and failed:
        print(Finding(WARNING, "probe", "was not sent", "mend the failures first"))
    elif job:
        from harness.commands.doctor import probe

        failed = _print(probe.send(store, composed))
    return int(failed)


def _print(found: Iterator[Finding]) -> bool:
    """Whether one of them is a failure."""
    failed = False
    for finding in found:
        print(finding, flush=True)
        failed |= finding.level == FAILURE
    return failed
