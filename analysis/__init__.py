"""Read training logs wherever they are, estimate, plot and report. Never imports verl, torch or ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.run import Run, tidy

__all__ = ["Run", "tidy"]


def __getattr__(name: str) -> Any:
    # Late, so that `harness status` can use analysis.statistics.entropy without the 0.4 s that pandas takes.
    if name in __all__:
        from analysis import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
