"""verl's platform layer on a machine without an accelerator (verl/plugin/platform/platform_base.py)."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

NAME = "cpu"


def register() -> None:
    """Registers the platform under VERL_PLATFORM=cpu. Safe to call again."""
    if PlatformRegistry.get(NAME) is not CPUPlatform:
        PlatformRegistry.register(platform=NAME)(CPUPlatform)


def _resident_bytes(*_: Any) -> int:
    return int(psutil.Process().memory_info().rss)


class _DeviceModule(types.ModuleType):
    """`torch.cpu` with the functions of `torch.cuda` that verl calls whatever the device."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    @staticmethod
    def is_available() -> bool:
        return False  # "no accelerator": verl's cache and memory helpers return early

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> torch.device:
        return torch.device("cpu")

    @staticmethod
    def nothing(*_: Any, **__: Any) -> None:
        return None

    set_device = synchronize = empty_cache = ipc_collect = reset_peak_memory_stats = nothing
    # What verl logs as perf/max_memory_*: here the memory of the process, in bytes.
    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = staticmethod(_resident_bytes)

    @staticmethod
    def mem_get_info(*_: Any) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return int(memory.available), int(memory.total)

    @staticmethod
    def get_device_name(*_: Any) -> str:
        return "cpu"

    @staticmethod
    def get_rng_state(*_: Any) -> torch.Tensor:
        return torch.get_rng_state()

    @staticmethod
    def set_rng_state(state: torch.Tensor, *_: Any) -> None:
        torch.set_rng_state(state)

    @staticmethod
    def manual_seed(seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


class CPUPlatform(PlatformBase):
    """One process, one "device". Ray's logical GPUs (`ray.init(num_gpus=N)`) count the slots for workers."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _DeviceModule("harness.trainer.cpu.device")

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False  # chosen by VERL_PLATFORM=cpu only, never detected

    def current_device(self) -> Any:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    def ray_resource_name(self) -> str:
        return "GPU"  # verl's ResourcePoolManager counts only "GPU" and "NPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None
