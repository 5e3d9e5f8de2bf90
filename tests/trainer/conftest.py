from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import assets


@pytest.fixture(scope="session")
def tiny_assets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths of a tiny untrained model, data and a reward function that chance satisfies half of the time."""
    return assets.make_assets(tmp_path_factory.mktemp("assets"))


@pytest.fixture(scope="session")
def make_run(tiny_assets: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Freezes a spec of the tiny task: make_run(overrides of verl's config) -> the run's folder."""
    root = tmp_path_factory.mktemp("runs")

    def make(overrides: dict[str, Any] | None = None, **config: Any) -> Path:
        run_dir = root / f"{len(list(root.iterdir())):010x}"
        assets.write_spec(run_dir, tiny_assets, overrides, **config)
        return run_dir

    return make
