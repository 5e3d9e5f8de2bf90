"""What decides the science of a run, and the identity made of it."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.config import reference
from harness.config.compose import Composed
from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.store import renamed
from harness.tasks.data import catalogue
from harness.tasks.data.check import refuse_repeated_file
from harness.tasks.data.prepared import content

SCHEMA = 1

NOT_SCIENCE = (
    # where things lie: their content has its own place in the signature
    "data.train_files", "data.val_files", "*.path", "*.tokenizer_path", "*.cache_dir", "*.save_path",
    # who watches
    "trainer.logger", "trainer.project_name", "trainer.experiment_name", "trainer.*_data_dir", "trainer.wandb_proxy",
    "trainer.log_val_generations", "*profiler*", "*.trace.*", "*.disable_log_stats", "*.prometheus.*",
    # how often a run is saved, and how it is resumed
    "trainer.default_*", "trainer.save_freq", "trainer.resume_*", "trainer.max_*_ckpt_to_keep", "*.checkpoint.*",
    "trainer.esi_redundant_time", "trainer.total_epochs", "trainer.del_local_ckpt_after_load",
    # how much machine it gets
    "trainer.nnodes", "trainer.n_gpus_per_node", "trainer.device", "trainer.balance_batch", "ray_kwargs.*",
    "transfer_queue.*", "*num_workers", "*parallel_size", "*fsdp_size", "*offload*", "*gpu_memory_utilization",
    "*micro_batch_size*", "*max_token_len_per_gpu", "*use_dynamic_bsz", "*max_num_seqs", "*max_num_batched_tokens",
    "*torch_compile", "*enforce_eager", "*free_cache_engine", "*gradient_checkpointing", "*enable_chunked_prefill",
    "*enable_prefix_caching", "*load_format", "*nccl_timeout", "*timeout*", "*cudagraph_capture_sizes",
    "*update_weights_bucket_megabytes", "*entropy_from_logits*", "*entropy_checkpointing",
    "data.val_batch_size", "*forward_prefetch", "*reshard_after_forward",
    # has its own, canonical place in the signature
    "algorithm.qae.*", "trainer.total_training_steps", "trainer.test_freq", "trainer.val_before_train",
    "actor_rollout_ref.rollout.val_kwargs.*", "data.seed", "*.data_loader_seed", "*.rollout.seed", "*.fsdp_config.seed",
    # how our trainer writes its records
    "harness.words", "harness.token_steps", "harness.pass_at", "harness.poll_interval", "harness.save_on_stop",
    "harness.keep_*", "harness.reference_K", "harness.stock_validation_metrics", "harness.trainer_in_driver",
    "harness.filter_rounds",
)  # fmt: skip
"""Patterns of verl keys that do not decide a run's science. Whatever is not named here does."""


def signature(composed: Composed, root: Path) -> dict[str, Any]:
    """The signature of a run: plain JSON, sorted where order means nothing.

    `root` is where relative data and model paths start. Two runs of equal signature are one experiment. With exact
    interpolation K enters as its rank ceil(K*G), because nothing else of it matters (reference: arXiv 2509.22611,
    definition of b_K).
    """
    settings = composed.settings
    return {
        "schema": SCHEMA,
        "seed": settings.seed,
        "steps": settings.steps,
        "baseline": _baseline(settings),
        "model": _model(settings, root),
        "data": _data(settings, root),
        "evaluation": _evaluation(settings, root),
        "reward": _reward(composed.asked, root),
        "verl": _verl(composed.asked),
        "verl_version": reference.verl_version(),
    }


def run_id(signature: Mapping[str, Any]) -> str:
    """Ten hexadecimal digits of the signature's SHA-256; also the W&B run id."""
    return hashlib.sha256(canonical(signature).encode()).hexdigest()[:10]


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _baseline(settings: Settings) -> dict[str, Any]:
    baseline = settings.baseline
    if baseline.name != "qae":
        return {"name": baseline.name, "norm_by_std": baseline.norm_by_std, "reference_K": baseline.reference_K}
    rank = baseline.rank(settings.recipe.group_size)
    level = {"K": baseline.K} if rank is None else {"rank": rank}
    return {
        "name": "qae", **level, "group_size": settings.recipe.group_size, "mask": baseline.mask,
        "interpolation": baseline.interpolation, "norm_by_std": baseline.norm_by_std,
        "success_threshold": baseline.success_threshold,
    }  # fmt: skip


def _model(settings: Settings, root: Path) -> dict[str, Any]:
    if settings.model.builtin is not None:
        return _builtin_model(settings.model.builtin)
    path = Path(os.path.expanduser(settings.model.path or ""))
    folder = path if path.is_absolute() else root / path
    if not folder.is_dir():
        return {"name": settings.model.path}  # a hub name
    files = sorted(p for p in folder.iterdir() if p.suffix in (".json", ".safetensors", ".bin", ".jinja"))
    if not any(p.name == "config.json" for p in files):
        raise HarnessError(
            f"model.path={settings.model.path}: {folder} has no config.json; give a Hugging Face model folder"
        )
    # Weights are told apart by size: reading hundreds of GB on a login node is no option.
    small = (".json", ".jinja")
    digests = {p.name: _digest(p, _mark(p)) if p.suffix in small else f"{p.stat().st_size} bytes" for p in files}
    return {"files": digests}


def _data(settings: Settings, root: Path) -> dict[str, Any]:
    if settings.data.builtin is not None:
        return _builtin_data(settings.data.builtin)
    return {"files": _contents(settings.data.train_files, root, "data.train_files")}


def _evaluation(settings: Settings, root: Path) -> dict[str, Any]:
    evaluation = settings.evaluation
    if evaluation.builtin is not None:
        sets: dict[str, Any] = _builtin_data(evaluation.builtin)
    else:
        sets = {"files": _contents(evaluation.files, root, "evaluation.files")}
        for name in evaluation.files:
            path = root / os.path.expanduser(name)
            _refuse_repeated(path, _mark(path))
    return {
        "sets": sets, "samples": evaluation.samples, "temperature": evaluation.temperature, "every": evaluation.every,
        "before_training": evaluation.before_training,
    }  # fmt: skip


def _reward(asked: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """A reward function of the user's own enters by its content; the rest of verl's reward settings are in `verl`."""
    function = asked.get("reward", {}).get("custom_reward_function", {})
    path = str(function.get("path") or "")
    if not path or path.startswith("pkg://"):
        return {"module": renamed.identity(path)} if path else {}
    return {"files": _contents([path], root, "verl.reward.custom_reward_function.path")}


def _contents(files: Sequence[str], root: Path, key: str) -> list[str]:
    digests = []
    for name in files:
        path = Path(os.path.expanduser(name))
        path = path if path.is_absolute() else root / path
        if not path.is_file():
            known = path.suffix == ".parquet" and path.stem in catalogue.SOURCES
            remedy = f": run `harness data prepare {path.stem}`" if known else ""
            raise HarnessError(f"{key}={name}: no such file ({path}){remedy}")
        digests.append(_content(path, _mark(path)))
    return digests


# The points of a grid share their files and built-in parts: each is read once, and again where it has changed.


def _mark(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.cache
def _builtin_model(name: str) -> dict[str, Any]:
    from harness.tasks.builtin.identity import model_identity

    return model_identity(name)


@functools.cache
def _builtin_data(name: str) -> dict[str, Any]:
    from harness.tasks.builtin.identity import data_identity

    return data_identity(name)


@functools.lru_cache(maxsize=256)
def _content(path: Path, mark: tuple[int, int, int]) -> str:
    return content(path)


@functools.lru_cache(maxsize=256)
def _refuse_repeated(path: Path, mark: tuple[int, int, int]) -> None:
    refuse_repeated_file(path, "evaluation.files")


@functools.lru_cache(maxsize=256)
def _digest(path: Path, mark: tuple[int, int, int]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verl(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What the run asks of verl beyond verl's defaults, without what does not decide its science; flat and sorted."""
    defaults = _defaults()
    kept = {
        key: value
        for key, value in reference.flat_items(asked)
        if (key not in defaults or defaults[key] != value) and _decides(key)
    }
    return dict(sorted(kept.items()))


@functools.cache
def _defaults() -> dict[str, Any]:
    return dict(reference.flat_items(reference.load()))


@functools.cache
def _decides(key: str) -> bool:
    return not any(fnmatch.fnmatchcase(key, pattern) for pattern in NOT_SCIENCE)
