"""The verbs that look at runs and take hold of them: status, logs, cancel, retry.

The parser of every verb imports this module: what takes time to import is imported where it is used.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError, nearest

if TYPE_CHECKING:
    from harness.store import RunState, Store

WHICH = "a sweep or a study, the first digits of a run's id, or filters such as k=0.4,seed=2 or state=failed"
_SHORT_CLASSES = {
    "oom": ("out of GPU memory", "out of host memory"), "gpu-oom": ("out of GPU memory",),
    "host-oom": ("out of host memory",), "timeout": ("time limit",), "node": ("node failure",),
    "nan": ("not a number",), "ray": ("Ray start-up",),
}  # fmt: skip


def add_arguments(verb: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of one of this module's verbs."""
    needed = {"status": "*", "logs": "+", "cancel": "+", "retry": "+"}[verb]
    parser.add_argument("runs", nargs=needed, metavar="RUNS", help=WHICH)
    if verb == "status":
        parser.add_argument("--watch", action="store_true", help="refresh until nothing is queued or running")
        parser.add_argument("--every", type=float, default=10.0, metavar="SECONDS", help="between two refreshes (10)")
    if verb == "cancel":
        parser.add_argument("--eval", action="store_true", help="only the evaluations of these runs")
    if verb == "logs":
        parser.add_argument("-f", "--follow", action="store_true", help="go on as the log grows")
        parser.add_argument("-n", "--lines", type=int, default=100, help="the last so many lines (100)")
        parser.add_argument("--attempt", type=int, help="of this attempt; by default the last")
        parser.add_argument(
            "--eval", type=int, nargs="?", const=-1, metavar="STEP", help="of an evaluation; by default the latest"
        )
    if verb == "retry":
        parser.add_argument("--failed", action="store_true", help="only runs that failed, not those that were stopped")
        parser.add_argument("--class", dest="cause", help="only failures of this class, such as oom, NCCL, hang")


def _store() -> Store:
    from harness.compose import project_folder
    from harness.store import Store

    return Store.default(project_folder())


def status(arguments: argparse.Namespace) -> int:
    """`harness status [RUNS] [--watch]`."""
    from harness import status as shown
    from harness import targets

    store = _store()
    runs = targets.runs(store, arguments.runs)
    if not runs:
        print(f"no runs in {store.root} yet: start some with `harness sweep smoke`")
        return 0
    title = " ".join(arguments.runs) or str(store.root)
    study = targets.study(store, arguments.runs)
    if arguments.watch:
        shown.watch(store, runs, title, every=max(1.0, arguments.every))
    else:
        shown.show(store, runs, title)
    if study is not None:
        from harness.search import steer

        print(steer.standing(study))
    return 0


def cancel(arguments: argparse.Namespace) -> int:
    """`harness cancel RUNS [--eval]`: the runs and their evaluations, or only these.

    A study as a whole is held, its controller too: it would start its runs again.
    """
    from harness import evaluations, targets
    from harness.slurm.cancel import cancel as act

    store = _store()
    runs, study = targets.runs(store, arguments.runs), targets.study(store, arguments.runs)
    if study is not None and not arguments.eval:
        from harness.search import steer

        for line in steer.hold(store, study):
            print(line)
    told = act(store, [*([] if arguments.eval else runs), *evaluations.unfinished(store, runs)])
    for run, what in told.items():
        name = evaluations.label(run) if evaluations.is_one(run) else f"{run}  {store.brief(run)['label']}"
        print(f"{name}: cancelled ({what})")
    gone = {str(store.brief(run).get("sweep", "")) for run in told if not evaluations.is_one(run)}
    for name in sorted(gone) if study is None else ():
        if name.startswith("search/"):
            short = name.removeprefix("search/")
            print(f"study {short} starts its runs again while it goes on: `harness cancel {short}` stops it as a whole")
    if not told:
        print("nothing to cancel: none of these runs is queued or running")
    return 0


def logs(arguments: argparse.Namespace) -> int:
    """`harness logs RUN [-f] [--eval [STEP]]`."""
    from harness import targets

    store = _store()
    run = targets.one(store, arguments.runs)
    if arguments.eval is not None:
        run = _evaluation(store, run, arguments.eval)
    path = log_of(store, run, arguments.attempt)
    if path is None:
        from harness.slurm import live

        state = live.overview(store, [run])[run].state
        if not arguments.follow:
            raise HarnessError(f"run {run} has no log yet: {state.kind}, {state.reason}")
        print(f"{run} {state.kind}: {state.reason}", flush=True)
    show(lambda: log_of(store, run, arguments.attempt), arguments.lines, arguments.follow, lambda: _over(store, run))
    return 0


def _evaluation(store: Store, run: str, step: int) -> str:
    """Name of the run's evaluation at a step, of the latest for -1. Raises: HarnessError where there is none."""
    from harness import evaluations

    found = {evaluations.parts(e)[1]: e for e in evaluations.every(store, [run])}
    if step >= 0 and step in found:
        return found[step]
    if step < 0 and found:
        return max(found.values(), key=lambda e: (store.folder(e) / "spec.json").stat().st_mtime)
    there = ", ".join(map(str, found)) or "none"
    asked = f"no evaluation of step {step}" if step >= 0 else "no evaluation"
    raise HarnessError(f"run {run} has {asked} (there: {there}): `harness eval {run}` makes one")


def log_of(store: Store, run: str, attempt: int | None) -> Path | None:
    """The log of an attempt, the last one by default; before the trainer's first word, that of the SLURM job."""
    numbers = [int(record["attempt"]) for record in store.attempts(run)]
    if attempt is not None and attempt not in numbers:
        raise HarnessError(
            f"run {run} has no attempt {attempt}; {nearest(str(attempt), map(str, numbers)) or 'none yet'}"
        )
    chosen = attempt or (numbers[-1] if numbers else None)
    path = store.folder(run) / "attempts" / f"{chosen or 0:03d}" / "stdout.log"
    if chosen is not None and path.exists():
        return path
    from harness.slurm import live, submission

    held = live.handed(store, [run]).get(run)
    if held is None or held.job is None:
        return None
    written = sorted((submission.folder(store.root, held.record.key) / "logs").glob(f"{held.job}.*"))
    return next((p for p in reversed(written) if p.stat().st_size), None)


def show(path: Callable[[], Path | None], lines: int, follow: bool, over: Callable[[], bool]) -> None:
    """Prints the end of a log, and what is added while `follow`; a later attempt's log takes its place."""
    current, at = path(), 0
    if current is not None:
        print(f"==> {current} <==", flush=True)
        text = current.read_bytes()
        at = len(text)
        sys.stdout.write("\n".join(text.decode("utf-8", "replace").splitlines()[-lines:]) + "\n")
    with contextlib.suppress(KeyboardInterrupt):
        while follow:
            sys.stdout.flush()
            ended = over()
            latest = path()
            if latest is not None and latest != current:
                current, at = latest, 0
                print(f"==> {current} <==")
            if current is not None:
                with current.open("rb") as file:
                    file.seek(at)
                    added = file.read()
                at += len(added)
                sys.stdout.write(added.decode("utf-8", "replace"))
            if ended:
                return
            time.sleep(0.5)


def _over(store: Store, run: str) -> bool:
    from harness.slurm import live

    return live.overview(store, [run])[run].state.kind in ("done", "failed", "stopped")


def retry(arguments: argparse.Namespace) -> int:
    """`harness retry RUNS [--failed] [--class CAUSE]`: runs of sweeps, through the same plan and submission."""
    from harness import again, targets

    store = _store()
    runs = targets.runs(store, arguments.runs)
    causes = classes(arguments.cause) if arguments.cause else ()

    def wanted(state: RunState, cause: str) -> bool:
        if causes:
            return state.kind == "failed" and cause in causes
        return state.kind in (("failed",) if arguments.failed else ("failed", "stopped", "unknown", "new"))

    return again.retry(store, runs, wanted)


def classes(word: str) -> tuple[str, ...]:
    """The classes of failure that a word means. Raises: HarnessError with the nearest ones."""
    from harness.evidence import CLASSES

    known = {name for name, _ in CLASSES} | {"hang", "unfinished", "killed", "unknown", "time limit", "node failure"}
    if word in _SHORT_CLASSES:
        return _SHORT_CLASSES[word]
    same = tuple(name for name in known if name.lower() == word.lower().replace("-", " "))
    if not same:
        raise HarnessError(f"--class {word}: {nearest(word, {*known, *_SHORT_CLASSES})}")
    return same
