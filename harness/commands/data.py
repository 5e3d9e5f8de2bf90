"""`harness data prepare NAME`, `harness data show NAME 3`, `harness data list`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from harness.config.compose import project_folder
from harness.errors import HarnessError
from harness.tasks.data import catalogue, prepare, prepared

HELP = "prepare, show or list training and evaluation sets"
ACTIONS = ("prepare", "show", "list")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb `data`."""
    parser.add_argument("action", choices=ACTIONS, help="build a set, look at one, or list all")
    parser.add_argument("name", nargs="?", help="a set of `harness data list`, or any name with --from and --split")
    parser.add_argument("count", nargs="?", type=int, default=1, help="problems to show (default: 1)")
    parser.add_argument("--from", dest="given", type=Path, metavar="FILE", help="a local file instead of the hub")
    parser.add_argument("--split", choices=("train", "test"), help="what a file of your own is for")


def run(arguments: argparse.Namespace) -> int:
    """Does what is asked, and prints it."""
    print(act(arguments, project_folder()))
    return 0


def act(arguments: argparse.Namespace, project: Path) -> str:
    """Does what is asked; returns what to print.

    Raises: HarnessError for a set that is unknown, cannot be had, or is not what it is said to be.
    """
    if arguments.action == "list":
        return listing(project)
    if arguments.name is None:
        raise HarnessError(f"harness data {arguments.action}: which set? see `harness data list`")
    if arguments.name == catalogue.BUILTIN:
        return _builtin(arguments, project)
    if arguments.action == "prepare":
        return prepare.told(prepare.prepare(arguments.name, project, arguments.given, arguments.split))
    return prepare.show(arguments.name, arguments.count, project)


def listing(project: Path) -> str:
    """One line a set: name, what it is for, problems, whether it is prepared, where it comes from."""
    lines = []
    for source in catalogue.SOURCES.values():
        count = f"{source.least}" if source.least == source.most else f"{source.least}-{source.most}"
        path = prepared.folder(project) / f"{source.name}.parquet"
        state = "-" if not path.is_file() else "outdated" if prepared.is_outdated(path) else "prepared"
        lines.append(f"{source.name:<15} {source.split:<6} {count:>12}  {state:<9} {source.url}")
    lines.append(f"{catalogue.BUILTIN:<15} both   {'built in':>12}  {'made':<9} made when a run needs it")
    return "\n".join(lines)


def _builtin(arguments: argparse.Namespace, project: Path) -> str:
    from harness.planning.freeze import cache_folder
    from harness.tasks.builtin.assets import locate

    cache = cache_folder(project)
    assets = locate(cache, "tiny")
    paths = [assets.train_file, *assets.eval_files]
    if arguments.action == "prepare" and not all(Path(path).is_file() for path in paths):
        made = subprocess.run(
            [sys.executable, "-m", "harness.tasks.builtin", str(cache), "tiny"], cwd=project, check=False
        )
        if made.returncode:
            raise HarnessError(
                f"the built-in task could not be made: `python -m harness.tasks.builtin {cache} tiny` says why"
            )
    if arguments.action == "prepare":
        return "\n".join(f"prepared: {path}" for path in paths)
    return "\n\n".join(prepare.shown(Path(path), arguments.count) for path in paths)
