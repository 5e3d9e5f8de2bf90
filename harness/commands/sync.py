"""`harness sync`: uploads the offline W&B runs of the store, each fragment once, resumed runs as one history."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import files, secret
from harness.commands import targets
from harness.commands.doctor import wandbhost
from harness.errors import HarnessError
from harness.slurm import live
from harness.store import claim
from harness.store.runs import Store

HELP = "upload offline W&B runs, each once"
_GOING = ("running", "queued", "unknown")
_LONGEST_SECONDS = 1800.0
"""Of one run's upload: wandb itself tries for hours where the server has a fault."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Runs."""
    parser.add_argument("runs", nargs="*", metavar="RUNS", help=f"{targets.WHICH}; by default all")
    parser.add_argument("--all", action="store_true", help="also what queued and running runs have logged so far")


def run(arguments: argparse.Namespace) -> int:
    """Uploads and says what became of each run. Returns 1 where an upload failed."""
    store = targets.store()
    runs = targets.runs(store, arguments.runs)
    done, left = sync(store, runs, everything=arguments.all)
    for run, remark in done.items():
        print(f"{run}  {store.brief(run)['label']}: uploaded{remark and f'; {remark}'}")
    for run, why in left.items():
        print(f"{run}  {store.brief(run)['label']}: not uploaded, {why}")
    if not done and not left:
        print(nothing(store, runs))
    return int(any(not why.startswith(("running:", "queued:", "unknown:")) for why in left.values()))


@dataclass(frozen=True, slots=True)
class Pending:
    """A run with fragments that were not uploaded yet."""

    run: str
    fragments: tuple[Path, ...]
    """The .wandb files that are to be uploaded, oldest first: new ones, and those that have grown since."""
    every: tuple[Path, ...]
    """All of its .wandb files, oldest first."""


def pending(store: Store, runs: Sequence[str]) -> list[Pending]:
    """The runs with something to upload, in the order given."""
    found = []
    for run in runs:
        every = sorted((store.folder(run) / "wandb").glob("offline-run-*/run-*.wandb"), key=lambda p: p.parent.name)
        new = tuple(path for path in every if not _whole(path))
        if new:
            found.append(Pending(run, new, tuple(every)))
    return found


def sync(store: Store, runs: Sequence[str], *, everything: bool = False) -> tuple[dict[str, str], dict[str, str]]:
    """Uploads what is pending. Returns (run uploaded -> what to know about it, or '', run -> why it was not).

    Runs that are going on wait until they have ended, unless `everything`: what an attempt logs after its last
    checkpoint may still be trained again. Raises: HarnessError without the wandb program, a key or a server.
    """
    waiting = pending(store, runs)
    if waiting and not wandbhost.has_key():
        raise HarnessError(f"no API key for {wandbhost.url()}: run `wandb login`, or set WANDB_API_KEY")
    if waiting and (trouble := wandbhost.trouble()):
        raise HarnessError(f"{trouble}: try again later, from a machine with network, or set WANDB_BASE_URL")
    kinds = {run: s.state.kind for run, s in live.overview(store, [p.run for p in waiting]).items()}
    done: dict[str, str] = {}
    left: dict[str, str] = {}
    for item in waiting:
        if kinds[item.run] in _GOING and not everything:
            left[item.run] = f"{kinds[item.run]}: it will be uploaded once it has ended, or now with --all"
            continue
        try:
            with claim.claimed(store.folder(item.run) / "wandb"):  # two syncs at once upload nothing twice
                fresh = pending(store, [item.run])
                trouble, remark = _upload(store, fresh[0]) if fresh else ("", "")
        except claim.Claimed as error:
            trouble, remark = str(error), ""
        if trouble:
            left[item.run] = trouble
        else:
            done[item.run] = remark
            store.event(item.run, "synced", fragments=[path.parent.name for path in item.fragments])
    return done, left


def nothing(store: Store, runs: Sequence[str]) -> str:
    """What to say where nothing was uploaded and nothing left."""
    offline = sum(any((store.folder(run) / "wandb").glob("offline-run-*/run-*.wandb")) for run in runs)
    return f"nothing to upload: {offline} of {len(runs)} runs have offline records, all of them uploaded before"


def _mark(path: Path) -> Path:
    """W&B's own mark of a file that was uploaded."""
    return path.with_name(f"{path.name}.synced")


def _sent(path: Path) -> dict[str, Any]:
    """What the mark tells of the upload: size of the file then, its history rows, and those that were left out. W&B's
    own mark is empty: all was uploaded."""
    try:
        content = json.loads(_mark(path).read_text() or "{}")
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _whole(path: Path) -> bool:
    """Whether all that is in a file was uploaded, or left out on purpose."""
    return _mark(path).exists() and path.stat().st_size <= _sent(path).get("size", math.inf)


def _rows_sent(path: Path) -> np.ndarray:
    """(rows,) bool: the file's history rows that are on the server."""
    from analysis.sources import local

    about = _sent(path)
    rows = np.ones(about["rows"] if "rows" in about else local.read(path).rows, dtype=bool)
    rows[about.get("left_out", [])] = False
    return rows


def _upload(store: Store, item: Pending) -> tuple[str, str]:
    """Uploads copies in which no step stands that is on the server, or in a later copy. Returns what went wrong, and
    what to know of an upload that went well; or ''."""
    from harness.commands import fragments as trimmed

    tracking = store.brief(item.run)["config"]["tracking"]
    sent = {path: _rows_sent(path) for path in item.every if _mark(path).exists()}
    sizes = {path: path.stat().st_size for path in item.fragments}  # before reading: what is logged meanwhile is new
    chosen = trimmed.select(item.every, sent)
    with tempfile.TemporaryDirectory(prefix="harness-sync-") as place:
        copies = []
        for path in item.fragments:
            copy = Path(place) / path.parent.name
            shutil.copytree(path.parent, copy, ignore=shutil.ignore_patterns("*.synced"))
            (copy / path.name).write_bytes(trimmed.cut(path.read_bytes(), chosen.rows[path]))
            copies.append(copy)
        command = [_program(), "sync", "--yes", "--project", tracking["project"]]
        command += ["--entity", tracking["entity"]] if tracking.get("entity") else []
        environment = {key: value for key, value in os.environ.items() if key not in ("WANDB_MODE", "WANDB_DIR")}
        try:
            done = subprocess.run(
                [*command, *map(str, copies)], capture_output=True, text=True, errors="replace", check=False,
                env=environment, cwd=place, stdin=subprocess.DEVNULL, timeout=_LONGEST_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"wandb sync did not end within {_LONGEST_SECONDS / 60:g} minutes: try again later", ""
        unmarked = [
            copy for copy, path in zip(copies, item.fragments, strict=True) if not _mark(copy / path.name).exists()
        ]
    if done.returncode or unmarked:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        telling = [line for line in lines if "rror" in line or "ermission" in line or "ailed" in line] or lines
        said = telling[-1].removeprefix("wandb: ") if telling else "wandb sync failed"
        return secret.redact(said, secret.values()), ""
    for path in item.fragments:
        rows = chosen.rows[path].copy()
        if path in sent:
            rows[: len(sent[path])] |= sent[path][: len(rows)]
        left_out = np.flatnonzero(~rows).tolist()
        files.write_json(_mark(path), {"size": sizes[path], "rows": len(rows), "left_out": left_out})
    return "", _remark(chosen.undone)


def _remark(undone: Sequence[int]) -> str:
    if not undone:
        return ""
    steps = f"steps {undone[0]} to {undone[-1]}" if len(undone) > 1 else f"step {undone[0]}"
    return f"W&B keeps {steps} as they were before the resume: what was uploaded cannot be replaced"


def _program() -> str:
    beside = Path(sys.executable).parent / "wandb"
    found = str(beside) if beside.exists() else shutil.which("wandb")
    if not found:
        raise HarnessError("the wandb program is not in this environment: pip install 'wandb>=0.28'")
    return found
