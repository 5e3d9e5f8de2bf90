"""How `make test` divides the tests among processes, and what holds for every property test."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # a busy machine is no fault
settings.load_profile("unhurried")


CLUSTER = Path(__file__).parent / "slurm"
TRAINING = {"test_end_to_end", "test_kl_run", "test_runs", "test_combinations", "test_real"}
"""Modules that run the real trainer."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests in three queues, the rest wherever there is room: those on the real cluster mostly wait, those with
    the real trainer fill a machine of two cores by themselves.
    """
    for item in items:
        if item.get_closest_marker("slow"):
            group = "cluster" if item.path.parent == CLUSTER else "training" if item.path.stem in TRAINING else "slow"
            item.add_marker(pytest.mark.xdist_group(group))
