from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch):
    """Simulated studies write thousands of lines; what a power cut does is not what they test."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
