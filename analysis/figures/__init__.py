"""The figures of a sweep, one function each, usable alone: `entropy(runs, by="K").savefig("entropy.pdf")`.

Every function takes runs from any source and gives a matplotlib Figure; `by` groups the runs (config keys, or
the short names K, baseline, mask, model, recipe, G, data), by default into arms that differ only in their
seed. A metric that no run logged is an error that names the nearest one. `save` writes PDF, SVG and PNG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.comparison import ablation as studies
from analysis.comparison.ablation import Study
from analysis.comparison.arms import Against
from analysis.comparison.results import final
from analysis.figures import bars, curves, language, weights
from analysis.figures.chart import Chart
from analysis.run import Run
from harness.errors import HarnessError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

By = str | Sequence[str] | None


def entropy(runs: Iterable[Run], by: By = None) -> Figure:
    """Policy entropy, pass@1 and response length over steps (the paper's Fig. 1, 10, 11)."""
    return _figure(runs, by, curves.entropy)


def entropy_by_sign(runs: Iterable[Run], by: By = None) -> Figure:
    """Entropy of responses with positive, negative and any advantage (Fig. 4 left, 5b)."""
    return _figure(runs, by, curves.entropy_by_sign)


def query_weights(runs: Iterable[Run], by: By = None) -> Figure:
    """Query weight over the success rate, and where the sweep's queries lie (Fig. 4 middle, right)."""
    return _figure(runs, by, weights.query_weights)


def advantage_shares(runs: Iterable[Run], by: By = None) -> Figure:
    """Zero, positive and negative advantages stacked over steps, with the 80 % line (Fig. 5c)."""
    return _figure(runs, by, curves.advantage_shares)


def zero_share(runs: Iterable[Run], by: By = None) -> Figure:
    """Share of responses with zero advantage, a line an arm."""
    return _figure(runs, by, curves.zero_share)


def pass_at_k(
    runs: Iterable[Run], by: By = None, *, ks: tuple[int, ...] = (1, 16), benchmark: str | None = None
) -> Figure:
    """Unbiased pass@k over steps (Fig. 5a), of one benchmark or the mean of all."""
    return _figure(runs, by, lambda study: curves.pass_at_k(study, ks, benchmark))


def mask_ablation(runs: Iterable[Run], by: By = None, *, against: Against = "mean") -> Figure:
    """QAE, POS-MASK, NEG-MASK and the mean baseline at each eps_high (Fig. 6)."""
    return _figure(runs, by, lambda study: bars.mask_ablation(final(study, against)))


def settings(runs: Iterable[Run], by: By = None, *, against: Against = "mean") -> Figure:
    """Final accuracy of every baseline in every setting: recipes, models, group sizes, clip ratios (Table 1)."""
    return _figure(runs, by, lambda study: bars.settings(final(study, against)))


def k_sensitivity(runs: Iterable[Run], by: By = None, *, against: Against = "mean") -> Figure:
    """Entropy, accuracy and response length over K (Fig. 9)."""
    return _figure(runs, by, lambda study: bars.k_sensitivity(study, final(study, against)))


def words(runs: Iterable[Run], by: By = None) -> Figure:
    """Anthropomorphic words in a response, with pass@1 (Fig. 2, 7)."""
    return _figure(runs, by, language.words)


def tokens(runs: Iterable[Run], by: By = None, *, steps: tuple[int, ...] | None = None, top: int = 10) -> Figure:
    """The tokens of highest entropy at chosen steps (Fig. 3, 8)."""
    return _figure(runs, by, lambda study: language.tokens(study, steps, top))


def outcome_map(runs: Iterable[Run], by: By = None, *, k: int = 1, against: Against = "mean") -> Figure:
    """Heat map of pass@k, arms by problems from easy to hard."""
    return _figure(runs, by, lambda study: bars.outcome_map(study, final(study, against), k))


def paired_differences(runs: Iterable[Run], by: By = None, *, against: Against = "mean") -> Figure:
    """Every arm minus one baseline arm on the same problems, with intervals."""
    return _figure(runs, by, lambda study: bars.paired_differences(final(study, against)))


def draw_all(
    runs: Iterable[Run], by: By = None, *, against: Against = "mean"
) -> tuple[dict[str, Figure], dict[str, str]]:
    """(figures by name, reasons by name): every figure that these runs allow, and why the others cannot be
    drawn.
    """
    selected = list(runs)
    study = studies.of(selected, by)
    drawn: dict[str, Figure] = {}
    reasons: dict[str, str] = {}
    from analysis.figures import draw

    for name, chart in _CHARTS.items():
        try:
            drawn[name] = draw.draw(chart(study, against))
        except HarnessError as error:
            reasons[name] = str(error)
    return drawn, reasons


def save(figure: Figure, stem: str | Path, formats: Iterable[str] = ("pdf", "svg", "png")) -> list[Path]:
    """Writes `stem`.pdf, `stem`.svg and `stem`.png, each at once or not at all; returns the paths."""
    from analysis.figures import draw

    return draw.save(figure, Path(stem), formats)


def _figure(runs: Iterable[Run], by: By, chart: Callable[[Study], Chart]) -> Figure:
    # matplotlib takes most of a second to import: the report only needs it when a figure has changed.
    from analysis.figures import draw

    return draw.draw(chart(studies.of(runs, by)))


_CHARTS: dict[str, Callable[[Study, Against], Chart]] = {
    "entropy": lambda study, _: curves.entropy(study),
    "entropy_by_sign": lambda study, _: curves.entropy_by_sign(study),
    "query_weights": lambda study, _: weights.query_weights(study),
    "advantage_shares": lambda study, _: curves.advantage_shares(study),
    "zero_share": lambda study, _: curves.zero_share(study),
    "pass_at_k": lambda study, _: curves.pass_at_k(study, study.ks),
    "settings": lambda study, against: bars.settings(final(study, against)),
    "mask_ablation": lambda study, against: bars.mask_ablation(final(study, against)),
    "k_sensitivity": lambda study, against: bars.k_sensitivity(study, final(study, against)),
    "words": lambda study, _: language.words(study),
    "tokens": lambda study, _: language.tokens(study),
    "outcome_map": lambda study, against: bars.outcome_map(study, final(study, against), study.ks[0]),
    "paired_differences": lambda study, against: bars.paired_differences(final(study, against)),
}
