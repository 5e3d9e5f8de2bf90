"""Where the reference data that is no part of this repository lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("QAE_SHARED", Path(__file__).parents[2] / "../shared")).resolve()


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where one of the shared folders is absent."""
    return pytest.mark.skipif(not (SHARED / name).exists(), reason=f"{SHARED / name} is absent: set QAE_SHARED")
