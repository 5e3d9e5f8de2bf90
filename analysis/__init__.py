"""Read training logs wherever they are, estimate, plot and report. Never imports verl, torch or ray."""

from __future__ import annotations

from analysis.run import Run, tidy

__all__ = ["Run", "tidy"]
