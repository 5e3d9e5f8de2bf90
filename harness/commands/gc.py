"""`harness gc`: what the store could do without, and its removal when told. Never what a run may still need."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.commands import targets
from harness.running import evaluations
from harness.slurm import live, snapshot, submission
from harness.store import claim, retention
from harness.store.runs import Store
from harness.trainer import checkpoints

HELP = "list what the store no longer needs; --yes removes it"
_OLD_SECONDS = 7 * 86400.0
"""Records of submissions that no run points to stay for so long, with their logs."""
_TORN_SECONDS = 86400.0
"""A temporary file of this age belongs to a writer that was killed."""
ENDED = ("done", "failed", "stopped", "new")


@dataclass(frozen=True, slots=True)
class Waste:
    """Something that may go."""

    path: Path
    kind: str
    """`checkpoints`, `snapshots`, `submissions` or `temporary files`."""
    size: int
    """Bytes on disk."""
    why: str
    run: str | None = None
    """Whose checkpoint it is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Runs, and what may go."""
    parser.add_argument("runs", nargs="*", metavar="RUNS", help=f"{targets.WHICH}; by default all")
    parser.add_argument("--yes", action="store_true", help="remove it")
    parser.add_argument("--finished", action="store_true", help="also remove all checkpoints of finished runs")
    parser.add_argument("-v", "--verbose", action="store_true", help="name every path")


def run(arguments: argparse.Namespace) -> int:
    """Says what may go; removes it with --yes. Returns 1 where something could not be removed."""
    store = targets.store()
    found = find(store, targets.runs(store, arguments.runs), finished=arguments.finished)
    if not found:
        print("nothing to free")
        return 0
    print("\n".join(table(found)))
    if arguments.verbose:
        for waste in found:
            print(f"  {gib(waste.size):>10}  {waste.path}  ({waste.why})")
    if not arguments.yes:
        print("nothing was removed: --yes removes it, -v names it")
        return 0
    gone, kept = remove(store, found)
    print(f"freed {gib(sum(waste.size for waste in gone))}")
    for path, why in kept.items():
        print(f"kept {path}: {why}")
    return int(bool(kept))


def find(store: Store, runs: Sequence[str], *, finished: bool = False) -> list[Waste]:
    """What may go. Checkpoints only of the `runs` given; `finished` gives up all those of done runs.

    A run that is queued, running or in an unknown state is left alone; of every other one that is not done the newest
    whole checkpoint stays, and what its policy keeps. What an evaluation needs that is queued or running stays.
    """
    everything = store.ids()
    asked = evaluations.every(store, everything)
    seen = live.overview(store, [*everything, *asked])
    needed = evaluations.needed(seen)
    found: list[Waste] = []
    for run in runs:
        if run in seen and seen[run].state.kind in ENDED:
            all_of_them = finished and seen[run].state.kind == "done"
            found += _checkpoints(store, run, all_of_them, needed.get(run, set()))
    return [*found, *_snapshots(store, seen), *_submissions(store, [*everything, *asked]), *_torn(store)]


def _checkpoints(store: Store, run: str, all_of_them: bool, needed: Collection[int]) -> list[Waste]:
    root = store.folder(run) / "checkpoints"
    steps = checkpoints.steps(root)
    whole = [step for step in steps if checkpoints.is_sealed(root, step)]
    if all_of_them:
        gone = [(step, "the run is done") for step in steps]
    elif not whole:
        return []  # nothing is known to be whole: hands off
    else:
        policy = retention.Policy.of(store.brief(run)["config"])
        stay = retention.kept(whole, policy, retention.scores(store.folder(run) / "metrics.jsonl"))
        gone = [(step, _why(step, whole)) for step in steps if step not in stay and step < whole[-1]]
    return [
        Waste(checkpoints.folder(root, step), "checkpoints", size(checkpoints.folder(root, step)), why, run)
        for step, why in gone
        if step not in needed
    ]


def _why(step: int, whole: Sequence[int]) -> str:
    return "beyond the retention policy" if step in whole else "a save that was interrupted"


def _snapshots(store: Store, seen: Mapping[str, live.Seen]) -> list[Waste]:
    """Copies of the code that no run needs which is not done."""
    place = store.root / snapshot.FOLDER
    if not place.is_dir():
        return []
    needed = {
        Path(str(store.spec(run)["provenance"].get("snapshot", ""))).name
        for run, s in seen.items()
        if (s.state.kind in evaluations.PENDING if evaluations.is_one(run) else s.state.kind not in ("done", "absent"))
    }
    folders = [path for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return [
        Waste(path, "snapshots", size(path), "every run of it is done") for path in folders if path.name not in needed
    ]


def _submissions(store: Store, runs: Sequence[str]) -> list[Waste]:
    linked = {link.submission for run in runs if (link := submission.current(store.folder(run)))}
    place = store.root / submission.FOLDER
    found = []
    for path in place.glob("*/submission.json") if place.is_dir() else ():
        key = path.parent.name
        settled = not submission.read(store.root, key).open and time.time() - path.stat().st_mtime > _OLD_SECONDS
        if key not in linked and settled:
            found.append(Waste(path.parent, "submissions", size(path.parent), "no run points to it"))
    return found


def _torn(store: Store) -> list[Waste]:
    found = []
    levels = [f"{'*/' * depth}.*.tmp" for depth in range(1, 6)]  # the deepest: evaluations/STEP/outcomes/eval
    for pattern in (*levels, f"{snapshot.FOLDER}/.*"):
        for path in store.root.glob(pattern):
            with contextlib.suppress(FileNotFoundError):  # its writer lives, and has put it in place meanwhile
                if time.time() - path.stat().st_mtime > _TORN_SECONDS:
                    found.append(Waste(path, "temporary files", size(path), "its writer was killed"))
    return found


def size(path: Path) -> int:
    """Bytes on disk of a file or of all files below a folder."""
    if not path.is_dir():
        return path.stat().st_blocks * 512
    return sum(p.stat().st_blocks * 512 for p in path.rglob("*") if p.is_file() and not p.is_symlink())


def remove(store: Store, wastes: Sequence[Waste]) -> tuple[list[Waste], dict[Path, str]]:
    """Removes what was found; (what went, path -> why it did not).

    A run's claim is held while its checkpoints go: nobody can begin to load them. Nobody can submit meanwhile.
    """
    gone: list[Waste] = []
    kept: dict[Path, str] = {}
    with submission.gate(store.root):
        owners = sorted({waste.run for waste in wastes if waste.run is not None})
        needed = evaluations.needed(live.overview(store, evaluations.unfinished(store, owners)))
        for waste in wastes:
            if waste.run is not None and waste.path in _folders(store, waste.run, needed):
                kept[waste.path] = "an evaluation needs it that was asked for a moment ago"
                continue
            try:
                if waste.run is None:
                    _remove(waste.path)
                else:
                    with claim.claimed(store.folder(waste.run)):
                        _remove(waste.path)
            except (claim.Claimed, OSError) as error:
                kept[waste.path] = str(error)
            else:
                gone.append(waste)
    return gone, kept


def _folders(store: Store, run: str, needed: Mapping[str, Collection[int]]) -> list[Path]:
    return [checkpoints.folder(store.folder(run) / "checkpoints", step) for step in needed.get(run, ())]


def _remove(path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    (path / checkpoints.SEAL).unlink(missing_ok=True)  # a checkpoint half removed must not look whole
    shutil.rmtree(path)
    if path.parent.name == snapshot.FOLDER:
        path.with_suffix(".json").unlink(missing_ok=True)


def table(wastes: Sequence[Waste]) -> list[str]:
    """A line a kind, the largest first."""
    kinds: dict[str, list[Waste]] = {}
    for waste in wastes:
        kinds.setdefault(waste.kind, []).append(waste)
    totals = sorted(((sum(w.size for w in group), kind, len(group)) for kind, group in kinds.items()), reverse=True)
    return [f"{gib(total):>10}  {count:>5}  {kind}" for total, kind, count in totals]


def gib(count: int) -> str:
    """Such as `12.3 GiB` or `40 MiB`."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**29 else f"{count / 2**20:.1f} MiB"
