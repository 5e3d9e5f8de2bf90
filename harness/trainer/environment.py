"""The environment variables of one attempt, decided before Ray, verl or W&B are imported.

Every process of an attempt inherits HARNESS_ATTEMPT, by which `harness.trainer.processes` finds what is left of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.files import write_text

MARKER = "HARNESS_ATTEMPT"
"""Environment variable with the absolute path of the attempt's folder."""

FORK_SERVER = "HARNESS_FORK_SERVER"
"""Environment variable with the socket of a fork server for Ray's workers (CPU mode only)."""

PLUGIN = "harness.trainer.plugin"

PREFIX = "hr-"
RAY_NOTE = "ray_temp"

LONGEST_TEMP = 40
"""Ray's socket paths under its temp folder must stay below 108 bytes; it adds about 65."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a run."""

    run_dir: Path
    """The run's folder, absolute."""
    run_id: str
    """The run's id."""
    number: int
    """From 1."""

    @property
    def folder(self) -> Path:
        """Folder of the attempt's log."""
        return self.run_dir / "attempts" / f"{self.number:03d}"

    @property
    def stop_file(self) -> Path:
        """Its existence asks the trainer to end after the step in progress."""
        return self.folder / "stop"


def on_cpu(verl: Mapping[str, Any]) -> bool:
    """Whether a verl config asks for CPU mode: trainer.device=cpu."""
    return str(verl.get("trainer", {}).get("device", "cuda")) == "cpu"


def shared_variables(spec: Mapping[str, Any], inherited: Mapping[str, str]) -> dict[str, str]:
    """What to add to the environment that is the same for all runs of a kind; imports may depend on it.

    Args:
        spec: the content of spec.json.
        inherited: the environment so far; what the user set for threads and modules stays.
    """
    result = {
        "VERL_USE_EXTERNAL_MODULES": _with_plugin(inherited.get("VERL_USE_EXTERNAL_MODULES", "")),
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "PYTHONHASHSEED": "0",
    }
    if spec.get("config", {}).get("model", {}).get("builtin"):
        result |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return result | ({**cpu_variables(inherited), **start_variables()} if on_cpu(spec["verl"]) else {})


def variables(
    spec: Mapping[str, Any], attempt: Attempt, ray_temp: Path, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Everything to add to the inherited environment: `shared_variables` and what belongs to this attempt.

    Args:
        spec: the content of spec.json.
        attempt: see Attempt.
        ray_temp: see `make_ray_temp`; holds the token file.
        inherited: the environment so far; what the user set for W&B and threads stays.
    """
    return {
        **shared_variables(spec, inherited),
        MARKER: str(attempt.folder),
        "RAY_AUTH_TOKEN_PATH": str(token_file(ray_temp)),
        **tracking_variables(spec, attempt, inherited),
    }


def cpu_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """What switches CPU mode on, for our trainer and for stock verl alike."""
    return {
        "VERL_PLATFORM": "cpu",
        "VERL_ENGINE_DEVICE": "cuda",  # verl registers its FSDP engine for "cuda" and "npu" only
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # One thread: bitwise reproducible, and a run is many small processes on few cores. TransferQueue would
        # otherwise switch torch to eight threads around every call.
        "OMP_NUM_THREADS": inherited.get("OMP_NUM_THREADS", "1"),
        "TQ_NUM_THREADS": inherited.get("TQ_NUM_THREADS", "1"),
        "TOKENIZERS_PARALLELISM": "false",
    }


def start_variables() -> dict[str, str]:
    """What makes Ray start faster in CPU mode; not for stock verl, against which the start is measured."""
    return {
        # Idle workers that verl, whose actors have an environment of their own, never uses; ray.init waits for them.
        "RAY_prestart_worker_first_driver": "0",
        # The fork server (`cpu.forkserver`) cannot fork what is started with a preloaded library, nor agents that
        # recognise the raylet by being its children.
        "RAY_JEMALLOC_LIB_PATH": "",
        "RAY_enable_pipe_based_agent_to_parent_health_check": "1",
    }


def tracking_variables(spec: Mapping[str, Any], attempt: Attempt, inherited: Mapping[str, str]) -> dict[str, str]:
    """W&B's variables; a group or tags that the caller set stay."""
    name = str(spec.get("config", {}).get("tracking", {}).get("name", "offline"))
    modes = {"offline": "offline", "online": "online", "none": "disabled"}
    if name not in modes:
        raise HarnessError(f"tracking.name={name!r} in {attempt.run_dir / 'spec.json'}: use {', '.join(modes)}")
    result = {
        "WANDB_MODE": modes[name],
        "WANDB_RUN_ID": attempt.run_id,
        "WANDB_RESUME": "allow",
        "WANDB_DIR": str(attempt.run_dir),
        "WANDB_JOB_TYPE": inherited.get("WANDB_JOB_TYPE", "train"),
        "WANDB_SILENT": "true",
        "WANDB_DISABLE_CODE": "true",
    }
    group = inherited.get("WANDB_RUN_GROUP") or spec.get("config", {}).get("tracking", {}).get("group")
    if group:
        result["WANDB_RUN_GROUP"] = str(group)
    tags = inherited.get("WANDB_TAGS") or ",".join(_tags(spec.get("config", {})))
    if tags:
        result["WANDB_TAGS"] = tags
    return result


def make_ray_temp(attempt: Attempt) -> Path:
    """A new, short, private folder for Ray's session and its authentication token.

    The control port of Ray listens on every interface, and login and compute nodes are shared: only who can read this
    folder can talk to the cluster.

    Raises: HarnessError where the system's temp folder is too deep or not ours to write.
    """
    root = Path(tempfile.gettempdir())
    if len(str(root)) > LONGEST_TEMP - 20:
        root = Path("/tmp")
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{attempt.run_id[:6]}-", dir=root))
        os.chmod(folder, stat.S_IRWXU)
        handle = os.open(token_file(folder), os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
    except OSError as error:
        raise HarnessError(
            f"{root} cannot hold Ray's session ({error.strerror}): set TMPDIR to a short, local folder with room"
        ) from None
    return folder


def remember_ray_temp(attempt: Attempt, ray_temp: Path) -> None:
    """Notes the folder beside the attempt's log, for the next attempt to remove should this one be killed."""
    write_text(attempt.folder / RAY_NOTE, str(ray_temp))


def forget_ray_temps(attempt: Attempt) -> None:
    """Removes the folders of Ray that attempts of this run have noted; none of them may still be running."""
    for note in attempt.folder.parent.glob(f"*/{RAY_NOTE}"):
        folder = Path(note.read_text(encoding="utf-8", errors="replace"))
        if folder.name.startswith(PREFIX) and token_file(folder).is_file():
            # The token, which says that the folder is ours, goes last: who is killed in between has not lost it.
            shutil.rmtree(ray_folder(folder), ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
        elif folder.name.startswith(PREFIX):
            with contextlib.suppress(OSError):  # there is none, or somebody else's things lie in it
                folder.rmdir()
        note.unlink(missing_ok=True)


def ray_folder(ray_temp: Path) -> Path:
    """What Ray itself gets: it lets everybody write there, so it lies inside the folder that nobody else can enter."""
    return ray_temp / "r"


def token_file(ray_temp: Path) -> Path:
    """Where the token is kept."""
    return ray_temp / "token"


def _with_plugin(modules: str) -> str:
    names = [name.strip() for name in modules.split(",") if name.strip()]
    return ",".join(names if PLUGIN in names else [*names, PLUGIN])


def _tags(config: Mapping[str, Any]) -> list[str]:
    parts = (config.get(key, {}).get("name") for key in ("model", "baseline", "recipe", "data"))
    tags = [str(part) for part in parts if part]
    K = config.get("baseline", {}).get("K")
    return [*tags, f"K={K}"] if K is not None else tags
