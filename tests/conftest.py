"""How `make test` divides the tests among processes, and what holds for every property test."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # a busy machine is no fault
settings.load_profile("unhurried")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests one at a time, those on the real cluster one at a time beside them, the rest wherever there is room.

    Each slow test fills a machine of two cores by itself; those on the cluster mostly wait.
    """
    for item in items:
        if item.get_closest_marker("slow"):
            group = "cluster" if "slurm_cluster" in getattr(item, "fixturenames", ()) else "slow"
            item.add_marker(pytest.mark.xdist_group(group))
