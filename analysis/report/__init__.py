"""One self-contained HTML page for a sweep: `write(sweep, runs, folder)`."""

from __future__ import annotations

from analysis.report.write import write

__all__ = ["write"]
