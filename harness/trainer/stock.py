"""`python -m harness.trainer.stock RUN_DIR FOLDER`: the same frozen spec under verl's own `main_ppo`, for comparison.

Nothing of ours takes part but the plugin (estimator and CPU mode): verl's trainer, task runner, agent loop workers,
replay buffer and metrics. W&B, resuming and checkpoints are switched off. Files go to FOLDER.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness.errors import HarnessError
from harness.trainer import environment
from harness.trainer.environment import Attempt
from harness.trainer.main import read_spec

CONFIG_NAME = "stock"


def stock_config(spec: Mapping[str, Any], folder: Path, ray_temp: Path) -> dict[str, Any]:
    """verl's frozen config with the few changes that keep such a run to itself."""
    config = OmegaConf.create(dict(spec["verl"]))
    changes = {
        "trainer.default_local_dir": str(folder / "checkpoints"),
        "trainer.resume_mode": "disable",
        "trainer.save_freq": -1,
        "trainer.logger": ["console"],
        "ray_kwargs.ray_init.address": "local",
        "ray_kwargs.ray_init._temp_dir": str(environment.ray_folder(ray_temp)),
        "ray_kwargs.ray_init.include_dashboard": False,
    }
    for key, value in changes.items():
        OmegaConf.update(config, key, value, force_add=True)
    return OmegaConf.to_container(config)  # type: ignore[return-value]


def command(folder: Path) -> list[str]:
    """verl's command line for the config that `main` wrote into `folder`."""
    return [
        sys.executable, "-m", "verl.trainer.main_ppo", "--config-path", str(folder), "--config-name", CONFIG_NAME,
        f"hydra.run.dir={folder}", "hydra.output_subdir=null",
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the config, runs verl and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.trainer.stock", description=__doc__)
    parser.add_argument("run_dir", type=Path, help="folder of a planned run, with its spec.json")
    parser.add_argument("folder", type=Path, help="folder for the files of this run")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    try:
        spec = read_spec(options.run_dir.resolve())
        folder.mkdir(parents=True, exist_ok=True)
        attempt = Attempt(run_dir=folder, run_id=str(spec["id"]), number=1)
        ray_temp = environment.make_ray_temp(attempt)
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    OmegaConf.save(OmegaConf.create(stock_config(spec, folder, ray_temp)), folder / f"{CONFIG_NAME}.yaml")
    added = environment.variables(spec, attempt, ray_temp, os.environ)
    for name in environment.start_variables():
        del added[name]
    try:
        return subprocess.call(command(folder), env={**os.environ, **added})
    finally:
        shutil.rmtree(ray_temp, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
