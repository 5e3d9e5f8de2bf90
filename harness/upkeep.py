"""The verbs around the runs: doctor, sync, gc. What takes time to import is imported where it is used."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.store import Store


def add_arguments(verb: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of one of this module's verbs."""
    if verb == "doctor":
        parser.add_argument(
            "overrides", nargs="*", metavar="key=value", help="of the runs that are meant, as for train"
        )
        parser.add_argument("--job", action="store_true", help="also send a two-minute job that looks from a node")
        return
    help_text = "a sweep, a run's first digits or filters; by default all"
    parser.add_argument("runs", nargs="*", metavar="RUNS", help=help_text)
    if verb == "sync":
        parser.add_argument("--all", action="store_true", help="also what queued and running runs have logged so far")
    else:
        parser.add_argument("--yes", action="store_true", help="remove it")
        parser.add_argument("--finished", action="store_true", help="also all checkpoints of runs that are done")
        parser.add_argument("-v", "--verbose", action="store_true", help="name every path")


def _store() -> Store:
    from harness.compose import project_folder
    from harness.store import Store

    return Store.default(project_folder())


def sync(arguments: argparse.Namespace) -> int:
    """`harness sync [RUNS] [--all]`. Returns 1 where an upload failed."""
    from harness import sync as act
    from harness import targets

    store = _store()
    runs = targets.runs(store, arguments.runs)
    done, left = act.sync(store, runs, everything=arguments.all)
    for run in done:
        print(f"{run}  {store.brief(run)['label']}: uploaded")
    for run, why in left.items():
        print(f"{run}  {store.brief(run)['label']}: not uploaded, {why}")
    if not done and not left:
        print(act.nothing(store, runs))
    return int(any(not why.startswith(("running:", "queued:", "unknown:")) for why in left.values()))


def gc(arguments: argparse.Namespace) -> int:
    """`harness gc [RUNS] [--yes] [--finished]`. Returns 1 where something could not be removed."""
    from harness import gc as act
    from harness import targets

    store = _store()
    found = act.find(store, targets.runs(store, arguments.runs), finished=arguments.finished)
    if not found:
        print("nothing to free")
        return 0
    print("\n".join(act.table(found)))
    if arguments.verbose:
        for waste in found:
            print(f"  {act.gib(waste.size):>10}  {waste.path}  ({waste.why})")
    if not arguments.yes:
        print("nothing was removed: --yes removes it, -v names it")
        return 0
    gone, kept = act.remove(store, found)
    print(f"freed {act.gib(sum(waste.size for waste in gone))}")
    for path, why in kept.items():
        print(f"kept {path}: {why}")
    return int(bool(kept))


def doctor(arguments: argparse.Namespace) -> int:
    """`harness doctor [key=value ...] [--job]`. Returns 1 where something fails."""
    from harness import doctor as act

    return act.run(_store(), arguments.overrides, job=arguments.job)
