"""`harness replay RUN`: what other K would have made of a finished run's rewards."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from harness import files, quantile
from harness.commands import targets
from harness.store.runs import Store

HELP = "show what other values of K would have done with a finished run's rewards, without training"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, and levels of the quantile."""
    parser.add_argument("run", metavar="RUN", help=f"{targets.ONE}; a run with the mean baseline is best")
    parser.add_argument("--K", metavar="0.2,0.4", help="quantile levels (default: one for every rank)")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: reports/replay/RUN)")
    parser.add_argument("--no-figure", action="store_true", help="do not write the PDF, SVG and PNG")


def run(arguments: argparse.Namespace) -> int:
    """Prints the replay and where its table and figure are."""
    levels = [text for text in (arguments.K or "").split(",") if text.strip()]
    out = Path(arguments.out) if arguments.out else None
    print(text(targets.store(), arguments.run, levels, out, figure=not arguments.no_figure))
    return 0


def text(store: Store, prefix: str, levels: Sequence[str], out: Path | None, *, figure: bool = True) -> str:
    """The replay of a run as text; writes replay.csv and the figure to `out`, or reports/replay/<run>.

    Raises: HarnessError where the run is unknown or has no training outcomes, or a K is not in (0, 1).
    """
    from analysis.counterfactual import replay, replay_text

    run = store.find(prefix)
    for level in levels:
        quantile.level(level)
    label = str(store.spec(run).get("label", run))
    groups = replay.read(store.folder(run))
    chosen = replay.ranks(groups, levels)
    found = [replay.replay(groups, K) for K, _ in chosen]
    mean = replay.mean_profile(groups)
    told = [replay_text.text(f"{run} {label}", groups, found, mean)]
    told += _same(levels, groups.group_size)
    folder = out or Path(os.environ.get("HARNESS_REPORTS") or "reports").expanduser() / "replay" / run
    files.write_text(folder / "replay.csv", replay_text.as_csv(found))
    told.append(f"{folder / 'replay.csv'}")
    if figure:
        from analysis.counterfactual import figure as replayed
        from analysis.figures import draw

        draw.save(draw.draw(replayed.chart(label, found, mean)), folder / "replay")
        told.append(f"{folder / 'replay.pdf'}, .svg, .png")
    return "\n".join(told)


def _same(levels: Sequence[str], group_size: int) -> list[str]:
    """A line for every K whose rank another K of the list has already."""
    first: dict[int, str] = {}
    lines = []
    for text in levels:
        rank = quantile.rank(text, group_size)
        if first.setdefault(rank, text) != text:
            lines.append(f"K={text} is the same experiment as K={first[rank]}: both have rank {rank} of {group_size}")
    return lines
