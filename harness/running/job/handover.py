"""`python -m harness.running.job.handover RUN_DIR`: what a job does for the others when its run has ended.

It stops the rest of a sweep whose first runs all fail in one way, and submits what a submit limit kept back.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from harness.errors import HarnessError
from harness.slurm import backlog, brake, postmortem, submission, submit
from harness.store.runs import Store

log = logging.getLogger(__name__)


def after(folder: Path) -> None:
    """Does both. Raises: HarnessError where SLURM does not answer; the next job that ends tries again."""
    store, run = Store.holding(folder)
    spec = store.spec(run)
    with submission.gate(store.root) as lock:
        postmortem.complete(store, run)
        if spec["sweep"]:
            stop_after = spec["config"]["cluster"]["stop_after"]
            for withheld in brake.pull(store, spec["sweep"], stop_after, run if _unheard(store, run) else ""):
                log.warning("withheld %s", withheld)
        submit.recover(store)
        for sweep, runs in backlog.mine(store.root).items():
            report = submit.submit(store, runs, sweep, lock=lock)
            backlog.remove(store.root, report.left)
            log.warning("submitted %d runs that had waited", len(report.jobs))


def _unheard(store: Store, run: str) -> bool:
    """Whether the run's job, which ends now, has never come to our first word; one that was superseded had to."""
    link = submission.current(store.folder(run))
    mine = os.environ.get("HARNESS_SUBMISSION") or (link.submission if link else "")
    return link is not None and link.submission == mine and not store.attempts(run)


def main() -> int:
    """Never fails the job: its run has its own record."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        after(Path(sys.argv[1]).resolve())
    except (HarnessError, OSError) as error:
        log.warning("%s", error)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
