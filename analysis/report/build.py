"""Builds the report of a sweep and writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from analysis import study as studies
from analysis.figures import curves
from analysis.report import cards
from analysis.report.page import Section, render
from analysis.run import Run
from analysis.study import Study
from harness.files import write_text


def build(
    sweep: str,
    runs: Iterable[Run],
    folder: Path,
    *,
    against: str,
    missing: Sequence[str],
    question: str,
    figures: bool,
) -> Path:
    """As `analysis.report.write`, which see."""
    study = studies.of(runs, sweep=sweep)
    drawn = _curve_cards(study)
    sections = [Section(anchor="training", title="Training", body="".join(cards.html(card) for card in drawn))]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = render(sweep, _facts(study), sections, cards.data(drawn), f"Written {now}.")
    path = Path(folder) / "index.html"
    write_text(path, page)
    return path


def _curve_cards(study: Study) -> Sequence[cards.Card]:
    return [
        cards.build("Entropy, accuracy and length over training", lambda: curves.entropy(study)),
        cards.build("Zero-advantage ratio", lambda: curves.zero_share(study)),
        cards.build("pass@k over training", lambda: curves.pass_at_k(study)),
    ]


def _facts(study: Study) -> list[tuple[str, str]]:
    seeds = sorted({arm.seeds for arm in study.arms})
    steps = sorted({run.last_step for run in study.runs if run.last_step is not None})
    return [
        ("runs", str(len(study.runs))),
        ("arms", str(len(study.arms))),
        ("seeds an arm", span(seeds)),
        ("steps", span(steps)),
        ("samples a problem", str(study.samples or "none")),
        ("benchmarks", ", ".join(study.benchmarks) or "none"),
    ]


def span(values: Sequence[int]) -> str:
    """`3`, `2 to 5`, or `none`."""
    if not values:
        return "none"
    return str(values[0]) if values[0] == values[-1] else f"{values[0]} to {values[-1]}"
