"""Runs of a sweep against stock verl, back to back: `python benchmarks/startup.py [RUN_DIR ...] [--runs N]`.

Both sides train the same frozen specs (model, data, steps, evaluation) in CPU mode, one after the other, each in a new
folder. Stock is verl's own `main_ppo` with our plugin for CPUs: no fork server, no trainer of ours, verl's polling; it
writes neither checkpoints nor W&B files. The sweep's side is what `harness sweep` does: a fork server, started and
waited for within the measured time, then the supervisor for each run, with W&B, outcome files and checkpoints.

Without RUN_DIR two small runs are planned (6 steps, evaluation before, in the middle and at the end). The issue is the
ratio; seconds depend on what else the machine does, whose load is printed too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.config.compose import compose, project_folder
from harness.files import read_json
from harness.planning import freeze, provenance
from harness.planning.signature import run_id, signature
from harness.store.runs import Store
from harness.trainer import environment
from harness.trainer.cpu.forkserver import ForkServer

TARGET = 0.6
SMALL = ("model=tiny", "recipe=grpo", "platform=cpu", "steps=6", "save_every=6", "evaluation.every=3")
ARMS = (("baseline=mean",), ("baseline=qae", "baseline.K=0.4"))


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def planned(root: Path) -> list[Path]:
    """Folders of two small runs, frozen below `root`."""
    project = project_folder()
    collected = provenance.collect(project)
    store, folders = Store(root), []
    for arm in ARMS:
        composed = compose([*SMALL, *arm])
        sig = signature(composed, project)
        run = run_id(sig)
        spec = freeze.spec(run, composed, sig, sweep="", project=project, provenance=collected)
        store.freeze(run, spec, collected.diff)
        folders.append(store.folder(run))
    return folders


def copied(folders: Sequence[Path], root: Path) -> list[Path]:
    """New run folders below `root` with nothing but the specs of `folders`."""
    copies = []
    for folder in folders:
        copy = root / folder.name
        copy.mkdir(parents=True)
        shutil.copy(folder / "spec.json", copy)
        copies.append(copy)
    return copies


def timed(label: str, command: Sequence[str], log: Path, variables: Mapping[str, str]) -> float:
    """Seconds that a command took. Ends the benchmark where it failed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    with log.open("wb") as output:
        code = subprocess.call(
            [sys.executable, "-m", *command], env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output,
        )  # fmt: skip
    seconds = time.perf_counter() - begin
    if code != 0:
        raise SystemExit(f"{label} ended with exit code {code}: see {log}")
    say(f"  {label:<34} {seconds:6.1f} s   load {os.getloadavg()[0]:.1f}")
    return seconds


def stock(folders: Sequence[Path], root: Path) -> float:
    """Seconds of stock verl on all of them."""
    say("stock verl")
    return sum(
        timed(_label(folder), ["harness.trainer.stock", str(folder), str(root / folder.name)],
              root / f"{folder.name}.log", {})
        for folder in folders
    )  # fmt: skip


def sweep(folders: Sequence[Path], spec: Mapping[str, Any], *, fork_server: bool) -> float:
    """Seconds of the harness on all of them, with or without a fork server."""
    say("harness, one fork server" if fork_server else "harness, no fork server")
    begin = time.perf_counter()
    if fork_server:
        with ForkServer.start({**os.environ, **environment.shared_variables(spec, os.environ)}) as server:
            _supervised(folders, server.environment())
            declined = (server.folder / "log").read_text(encoding="utf-8").count("declined ")
            say(f"  {'processes declined by the server':<34} {declined:6d}")
    else:
        _supervised(folders, {})
    return time.perf_counter() - begin


def _supervised(folders: Sequence[Path], variables: Mapping[str, str]) -> None:
    for folder in folders:
        timed(_label(folder), ["harness.running.supervise", str(folder)], folder / "log", variables)


def _label(folder: Path) -> str:
    return str(read_json(folder / "spec.json").get("label", folder.name))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="RUN_DIR", nargs="*", type=Path, help="folders with a spec.json")
    parser.add_argument("--runs", type=int, default=None, help="only the first so many")
    parser.add_argument("--no-stock", action="store_true", help="measure the harness alone")
    parser.add_argument("--also-without", action="store_true", help="measure the harness without a fork server, too")
    parser.add_argument("--keep", type=Path, default=None, help="new folder for everything written; kept")
    options = parser.parse_args()
    root = options.keep or Path(tempfile.mkdtemp(prefix="harness-startup-"))
    folders = [folder.resolve() for folder in options.folders] or planned(root / "planned")
    folders = folders[: options.runs]
    spec = read_json(folders[0] / "spec.json")
    for folder in folders:  # once, whoever trains first
        for step in read_json(folder / "spec.json").get("prepare", []):
            subprocess.run([sys.executable, "-m", *step], check=True, stdout=subprocess.DEVNULL)
    seconds = {"harness": sweep(copied(folders, root / "sweep"), spec, fork_server=True)}
    if options.also_without:
        seconds["harness, no fork server"] = sweep(copied(folders, root / "plain"), spec, fork_server=False)
    if not options.no_stock:
        seconds["stock"] = stock(folders, root / "stock")
    count = len(folders)
    for name, value in seconds.items():
        say(f"{name:<24} {value:7.1f} s for {count} runs, {value / count:.1f} s a run")
    if "stock" in seconds:
        for name in [name for name in seconds if name != "stock"]:
            say(f"ratio {name} : stock  {seconds[name] / seconds['stock']:.2f}  (target {TARGET} with the fork server)")
    if options.keep is None:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
