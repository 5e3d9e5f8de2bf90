"""Synthetic sweeps shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.run import Run
from analysis.sources import store
from tests.support.synthetic import Arm, Size, write_sweep


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or fills the cache of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def smoke_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with mean, QAE K=0.4 and K=0.6, three seeds each."""
    root = tmp_path_factory.mktemp("smoke")
    write_sweep(root, size=Size(problems=12))
    return root


@pytest.fixture(scope="session")
def smoke(smoke_root: Path) -> tuple[Run, ...]:
    return store.load_sweep("smoke", smoke_root).runs


@pytest.fixture(scope="session")
def masks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, ...]:
    """One seed of mean, QAE and both masks, at two eps_high."""
    root = tmp_path_factory.mktemp("masks")
    arms = [
        Arm(*kind, eps_high=eps)
        for eps in (0.2, 0.28)
        for kind in (("mean",), ("qae", 0.4), ("qae", 0.4, "positive"), ("qae", 0.4, "negative"))
    ]
    write_sweep(root, arms, [1], Size(steps=20, problems=8, train_every=5, wandb=False), name="masks")
    return store.load_sweep("masks", root).runs
