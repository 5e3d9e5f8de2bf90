"""Builds the report of a sweep and writes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from analysis.comparison import ablation as studies
from analysis.comparison.ablation import Study
from analysis.comparison.arms import Against
from analysis.comparison.results import Results, attempt
from analysis.figures import bars, curves, language, weights
from analysis.figures.chart import Chart, digest
from analysis.report import cards, sections, summary, tables
from analysis.report.cards import Card
from analysis.report.cautions import cautions
from analysis.report.page import Section, render
from analysis.run import Run
from harness import files
from harness.errors import HarnessError

MOST_WORKERS = 4
"""Processes that draw figure files at once."""
PARALLEL_FROM = 6
"""Figures below which starting processes costs more than it saves."""


def build(
    sweep: str,
    runs: Iterable[Run],
    folder: Path,
    *,
    against: Against,
    missing: Sequence[str],
    question: str,
    figures: bool,
) -> Path:
    """As `analysis.report.write`, which see."""
    study = studies.of(runs, sweep=sweep)
    folder = Path(folder)
    results, absent = attempt(study, against)
    health = {run.id: verdict for run in study.runs if (verdict := studies.health_of(run)) is not None}
    training, final_cards = _training(study), _final(study, results)
    drawn = [*training, *final_cards]
    now = datetime.now(UTC)
    head = sections.summary(
        summary.sentences(study, results, health, absent), cautions(study, results, missing, health), question
    )
    content = None if results is None else tables.table(results)
    parts = [Section(anchor="summary", title="Summary", body=head)]
    if content is not None and results is not None:
        body = sections.results(content)
        parts.append(Section(anchor="results", title="Results", body=body))
    parts += [
        Section(anchor="training", title="Training", body=_cards(training)),
        Section(anchor="comparison", title="Comparison", body=_cards(final_cards)),
        Section(anchor="runs", title="Runs and their health", body=sections.runs(study, health, folder)),
        Section(anchor="configs", title="Configs that vary", body=sections.configs(study)),
        Section(anchor="provenance", title="Provenance", body=sections.provenance(study, results, now)),
    ]
    page = render(sweep, _facts(study), parts, cards.data(drawn), f"Written {now:%Y-%m-%d %H:%M} UTC.")
    try:
        files.write_text(folder / "index.html", page)
        if content is not None:
            for kind in ("csv", "md", "tex"):
                files.write_text(folder / f"table.{kind}", tables.render(content, kind))
        if figures:
            save_figures(drawn, folder / "figures")
    except OSError as error:
        raise HarnessError(
            f"{folder} cannot be written ({error.strerror}): choose another folder with --out"
        ) from error
    return folder / "index.html"


def save_figures(drawn: Iterable[Card], folder: Path) -> list[str]:
    """Writes every chart as PDF, SVG and PNG; those whose content did not change since are left alone.

    Returns:
        Keys of the charts that were drawn.
    """
    stamp = folder / "drawn.json"
    known = _stamp(stamp)
    charts = {card.chart.key: card.chart for card in drawn if card.chart is not None}
    style = (Path(weights.__file__).parent / "draw.py").read_bytes()  # a changed look is a changed figure
    wanted = {key: digest(chart, style) for key, chart in charts.items()}
    stale = [key for key in charts if known.get(key) != wanted[key] or not _complete(folder, key)]
    workers = min(len(os.sched_getaffinity(0)), MOST_WORKERS, len(stale))
    jobs = [(charts[key], folder / key) for key in stale]
    if workers > 1 and len(stale) >= PARALLEL_FROM:
        # Spawned, not forked: pyarrow and the linear algebra below numpy have threads of their own.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            list(pool.map(_save, jobs))
    else:
        list(map(_save, jobs))
    if wanted != known:
        files.write_json(stamp, wanted)
    return stale


def _save(job: tuple[Chart, Path]) -> None:
    from analysis.figures import draw  # matplotlib takes most of a second to import

    chart, stem = job
    draw.save(draw.draw(chart), stem)


def _training(study: Study) -> list[Card]:
    found = [
        cards.build("Entropy, accuracy and length over training", lambda: curves.entropy(study)),
        cards.build("Zero-advantage ratio", lambda: curves.zero_share(study)),
        cards.build("pass@k over training", lambda: curves.pass_at_k(study, study.ks)),
    ]
    if len(study.benchmarks) > 1:
        for name in study.benchmarks:
            found.append(_benchmark(study, name))
    return [
        *found,
        cards.build("Entropy by the sign of the advantage", lambda: curves.entropy_by_sign(study)),
        cards.build("Responses by advantage", lambda: curves.advantage_shares(study)),
        cards.build("Anthropomorphic words and accuracy", lambda: language.words(study)),
    ]


def _benchmark(study: Study, name: str) -> Card:
    return cards.build(f"pass@k over training, {name}", lambda: curves.pass_at_k(study, study.ks, name))


def _final(study: Study, results: Results | None) -> list[Card]:
    found = []
    if results is not None:
        if results.against is not None:
            found.append(cards.build("Paired differences", lambda: bars.paired_differences(results)))
        if not results.logged:
            found.append(cards.build("Outcomes by problem", lambda: bars.outcome_map(study, results, results.ks[0])))
        found.append(cards.build("Accuracy by setting", lambda: bars.settings(results)))
        found.append(cards.build("One-sided masks", lambda: bars.mask_ablation(results)))
    return [
        *found,
        cards.build("Sensitivity to K", lambda: bars.k_sensitivity(study, results)),
        cards.build("Query weight over the success rate", lambda: weights.query_weights(study)),
        cards.build("Tokens of highest entropy", lambda: language.tokens(study)),
    ]


def _cards(drawn: Sequence[Card]) -> str:
    """Charts as cards; what could not be drawn in one list at the end, with the reasons."""
    absent = [card for card in drawn if card.chart is None]
    return "".join(cards.html(card.chart) for card in drawn if card.chart is not None) + cards.absent(absent)


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


def _stamp(path: Path) -> dict[str, str]:
    try:
        found = files.read_json(path)
    except (FileNotFoundError, HarnessError):
        return {}  # absent or damaged: everything is drawn again
    return found if isinstance(found, dict) else {}


def _complete(folder: Path, key: str) -> bool:
    return all((folder / f"{key}.{kind}").is_file() for kind in ("pdf", "svg", "png"))
