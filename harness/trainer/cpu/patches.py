"""Two functions of verl 0.9.1 that assume an accelerator, replaced where the platform is the CPU.

1. `initialize_global_process_group_ray` (verl/utils/distributed.py) asks for "cpu:gloo,<device>:<backend>", which
   names the CPU twice.
2. FSDP2 wraps the reference policy with `CPUOffloadPolicy(pin_memory=True)`
   (verl/workers/engine/fsdp/transformer_impl.py); pinning memory needs an accelerator.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

BACKEND = "cpu:gloo"
MARK = "__harness_cpu__"
"""Attribute that marks a replaced function or class."""


def apply() -> None:
    """Replaces the first function, which brings the second patch along: only training workers get there, and
    importing the module that it concerns takes a second. Safe to call again."""
    import verl.utils.distributed as distributed

    stock = distributed.initialize_global_process_group_ray
    if hasattr(stock, MARK):
        return

    @functools.wraps(stock)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> None:
        _keep_memory_pageable()
        stock(timeout_second, backend or BACKEND)

    setattr(initialize, MARK, True)
    distributed.initialize_global_process_group_ray = initialize


def _keep_memory_pageable() -> None:
    # Both modules bind the name: the second imports it from the first when the engine is first used.
    for name in ("verl.utils.fsdp_utils", "verl.workers.engine.fsdp.transformer_impl"):
        module: Any = importlib.import_module(name)
        if hasattr(module.CPUOffloadPolicy, MARK):
            continue
        module.CPUOffloadPolicy = _pageable(module.CPUOffloadPolicy)


def _pageable(stock: Any) -> type:
    class PageableOffloadPolicy(stock):
        """`CPUOffloadPolicy` that never pins memory."""

        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__(pin_memory=False)

    setattr(PageableOffloadPolicy, MARK, True)
    return PageableOffloadPolicy
