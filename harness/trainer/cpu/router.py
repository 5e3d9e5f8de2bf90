"""A load balancer for servers that nobody asks through it.

verl always starts one as a process of its own, and its default imports all of verl there. With `cpu.batched` the
trainer speaks to the servers directly; this class keeps the place with a module that imports nothing.
Chosen through verl's `rollout.router_config_path`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

CONFIG = Path(__file__).with_name("router.yaml")


class IdleRouter:
    """The part of verl's RequestLoadBalancer (verl/workers/rollout/router.py) that is called without requests."""

    def __init__(self, servers: dict[str, Any], config: dict[str, Any]) -> None:
        self.servers = servers

    def get_all_servers(self) -> list[str]:
        """Names of the servers."""
        return list(self.servers)

    def clear_sticky_cache(self) -> dict[str, Any]:
        """Nothing is cached."""
        return {"cleared_entries": 0, "server_loads": dict.fromkeys(self.servers, 0)}

    def get_total_inflight(self) -> int:
        """No request goes through here."""
        return 0
