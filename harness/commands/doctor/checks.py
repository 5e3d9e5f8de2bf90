"""What would stop a run, told before the first GPU-hour: versions, folders, inputs, tracking, and SLURM's part."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.commands.doctor import slurm as cluster
from harness.commands.doctor import wandbhost
from harness.commands.doctor.findings import FAILURE, OK, WARNING, Finding
from harness.config.compose import Composed, project_folder
from harness.errors import HarnessError
from harness.store.runs import Store
from harness.tasks.data import prepared

VERL = (0, 9)
"""The versions of verl whose keys and hooks this harness knows."""
_SHARED = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "wekafs", "panfs", "orangefs", "afs", "glusterfs", "fuse", "9p")
_BYTES_A_PARAMETER = 16
"""Of a checkpoint: weights, float32 master copy and Adam's two moments, rounded up."""
_LEAST_FREE_GB = 5.0


def findings(store: Store, composed: Composed, *, job: bool = False) -> Iterator[Finding]:
    """All findings that need no job; `job` is whether one will look from a node, too."""
    if composed.settings.cluster.launcher == "slurm":
        yield from cluster.findings(composed)
    else:
        yield Finding(OK, "cluster", "runs on this machine (no SLURM, or cluster=local)")
    yield from versions(composed)
    yield from folders(store, composed, job=job)
    yield from inputs(composed)
    yield from tracking(composed)


def versions(composed: Composed) -> Iterator[Finding]:
    """verl, torch and, on GPUs, vLLM: there, and fitting one another."""
    verl = _version("verl")
    if verl is None:
        yield Finding(FAILURE, "verl", "is not installed", "make setup, or pip install -e . in verl's environment")
        return
    known = tuple(int(part) for part in verl.split(".")[:2] if part.isdigit()) == VERL
    wanted = ".".join(map(str, VERL))
    if known:
        yield Finding(OK, "verl", f"{verl}, torch {_version('torch') or 'missing'}")
    else:
        yield Finding(FAILURE, "verl", f"{verl} is not {wanted}.x", f"install verl {wanted}.1: its keys were checked")
    if composed.settings.platform != "cuda":
        return
    vllm, asked = _version("vllm"), _requirement("verl", "vllm")
    if vllm is None:
        yield Finding(FAILURE, "vLLM", "is not installed", f"pip install 'vllm{asked}' as verl {verl} asks")
    elif asked and not _fits(vllm, asked):
        yield Finding(WARNING, "vLLM", f"{vllm}, but verl {verl} asks for {asked}", f"pip install 'vllm{asked}'")
    else:
        yield Finding(OK, "vLLM", vllm)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _requirement(package: str, wanted: str) -> str:
    """The versions of `wanted` that `package` declares, '' for any."""
    from packaging.requirements import Requirement

    for text in importlib.metadata.requires(package) or ():
        requirement = Requirement(text)
        if requirement.name == wanted:
            return str(requirement.specifier)
    return ""


def _fits(version: str, asked: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(asked).contains(version, prereleases=True)


def folders(store: Store, composed: Composed, *, job: bool) -> Iterator[Finding]:
    """Whether runs and the cache can be written, and whether nodes see what this machine sees."""
    from harness.planning.freeze import cache_folder, check_writable

    cache = cache_folder(project_folder())
    try:
        check_writable(store.root)
    except HarnessError as error:
        yield Finding(FAILURE, "runs folder", str(error))
    else:
        yield Finding(OK, "runs folder", f"{store.root} can be written")
        yield from disk(store, composed)
    if trouble := unwritable(cache):
        yield Finding(FAILURE, "cache", f"{cache} cannot be written ({trouble})", "set HARNESS_CACHE to another folder")
    if composed.settings.cluster.launcher != "slurm" or job:
        return  # a job finds out
    places = {"the runs folder": store.root, "the cache": cache, "Python": Path(sys.prefix)}
    kinds = {name: filesystem(path) for name, path in places.items()}
    local = {name: kind for name, kind in kinds.items() if not kind.startswith(_SHARED)}
    if local:
        what = ", ".join(f"{name} on {kind or 'an unknown file system'}" for name, kind in local.items())
        remedy = "nodes need the same folders; `harness doctor --job` finds out whether they see them"
        yield Finding(WARNING, "shared folders", what, remedy)
    else:
        yield Finding(OK, "shared folders", ", ".join(f"{name} on {kind}" for name, kind in kinds.items()))


def unwritable(folder: Path) -> str:
    """Why no file can be made in a folder, '' where one can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return str(error.strerror)


def filesystem(path: Path) -> str:
    """Type of the file system that holds `path`, '' where it is not known."""
    real = str(path.resolve())
    best = ("", "")
    try:
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            for line in mounts:
                place, kind = line.split()[1:3]
                place = place.encode().decode("unicode_escape")
                if (real == place or real.startswith(place.rstrip("/") + "/")) and len(place) >= len(best[0]):
                    best = (place, kind)
    except OSError:
        return ""
    return best[1]


def disk(store: Store, composed: Composed) -> Iterator[Finding]:
    """Room for the checkpoints of a run: those that stay, and the one that is being written."""
    settings = composed.settings
    whole = settings.model.parameters * _BYTES_A_PARAMETER / 2**30
    stay = settings.keep_checkpoints + 1 + settings.keep_best
    stay += settings.steps // settings.keep_every if settings.keep_every else 0
    need = max(_LEAST_FREE_GB, whole * stay)
    folder = store.root if store.root.exists() else store.root.parent
    free = shutil.disk_usage(folder if folder.exists() else "/").free / 2**30
    take = f"up to {whole * stay:,.0f}" if whole * stay >= 1 else "less than 1"
    text = f"{free:,.0f} GiB free, the checkpoints of a run take {take}"
    if whole >= 1:
        text += f" ({stay} of {whole:,.0f})"
    if free < need:
        yield Finding(FAILURE, "disk", text, "set HARNESS_RUNS to a folder with room, or see `harness gc`")
    elif free < 10 * whole * stay:
        yield Finding(WARNING, "disk", text, f"enough for {int(free / need)} runs at once")
    else:
        yield Finding(OK, "disk", text)


def inputs(composed: Composed) -> Iterator[Finding]:
    """Model and data: there, or where they would be fetched from."""
    settings, project = composed.settings, project_folder()
    if settings.model.builtin:
        yield Finding(OK, "model", f"{settings.model.name} is built in and made by the first run")
    else:
        yield _model(settings.model.path or "", project)
    for key, builtin, files in (
        ("data", settings.data.builtin, settings.data.train_files),
        ("evaluation", settings.evaluation.builtin, settings.evaluation.files),
    ):
        missing = [name for name in files if not (project / os.path.expanduser(name)).is_file()]
        if builtin:
            yield Finding(OK, key, f"{builtin} is built in")
        elif missing:
            remedy = f"harness data prepare {Path(missing[0]).stem}, or correct {key} in conf/{key}"
            yield Finding(FAILURE, key, f"{missing[0]} does not exist", remedy)
        elif old := [name for name in files if prepared.is_outdated(project / os.path.expanduser(name))]:
            remedy = f"harness data prepare {Path(old[0]).stem}"
            yield Finding(FAILURE, key, f"{old[0]} was prepared by an earlier version, which altered answers", remedy)
        else:
            yield Finding(OK, key, f"{len(files)} files are there")


def _model(path: str, project: Path) -> Finding:
    folder = project / os.path.expanduser(path)
    if folder.is_dir():
        there = (folder / "config.json").is_file()
        remedy = "" if there else "give a Hugging Face model folder"
        return Finding(OK if there else FAILURE, "model", f"{folder}{'' if there else ' has no config.json'}", remedy)
    if path.startswith((".", "/", "~")):
        return Finding(FAILURE, "model", f"{folder} does not exist", "correct model.path")
    home = os.environ.get("HF_HUB_CACHE") or os.path.join(os.environ.get("HF_HOME") or "~/.cache/huggingface", "hub")
    cached = Path(home).expanduser() / f"models--{path.replace('/', '--')}"
    if cached.is_dir():
        return Finding(OK, "model", f"{path} is in {cached.parent}")
    remedy = f"nodes often have no network: `hf download {path}` here first, with HF_HOME on a shared folder"
    return Finding(WARNING, "model", f"{path} is not in {cached.parent}", remedy)


def tracking(composed: Composed) -> Iterator[Finding]:
    """W&B: offline needs nothing; online needs a key and a server."""
    chosen = composed.settings.tracking.name
    if chosen != "online":
        yield Finding(
            OK, "W&B", f"tracking={chosen} needs no network" + (", harness sync uploads" * (chosen == "offline"))
        )
    elif not wandbhost.has_key():
        yield Finding(FAILURE, "W&B", f"no API key for {wandbhost.url()}", "wandb login, or tracking=offline")
    elif trouble := wandbhost.trouble():
        yield Finding(FAILURE, "W&B", trouble, "tracking=offline, and later `harness sync`")
    else:
        yield Finding(OK, "W&B", f"{wandbhost.url()} answers")
