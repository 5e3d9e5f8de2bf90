"""One self-contained HTML page for a sweep: `write(sweep, runs, folder)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from analysis.comparison.arms import Against
from analysis.run import Run


def write(
    sweep: str,
    runs: Iterable[Run],
    folder: Path,
    *,
    against: Against = "mean",
    missing: Sequence[str] = (),
    question: str = "",
    figures: bool = True,
) -> Path:
    """Writes `folder`/index.html, and PDF, SVG and PNG of every figure to `folder`/figures/; returns the
    page's path.

    Args:
        sweep: the name in the heading.
        runs: all runs of the sweep, finished or not; they are grouped into arms here.
        against: the arm that others are compared with: a baseline's name, an arm's label, or config values.
        missing: labels of grid points that have no run, for the warnings.
        question: what the sweep asks, for the heading.
        figures: whether to write the figure files; they take most of the time. Unchanged ones are left alone.

    Raises:
        HarnessError: no runs, or a folder that cannot be written.
    """
    # The page needs plotly and the figures matplotlib: `--help` and the other verbs do not wait for them.
    from analysis.report.build import build

    return build(sweep, runs, folder, against=against, missing=missing, question=question, figures=figures)
