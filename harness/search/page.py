"""The page of a K search: `harness report STUDY` writes reports/<study>/index.html."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.comparison import ablation as studies
from analysis.figures import curves
from analysis.report import cards, sections
from analysis.report.build import save_figures
from analysis.report.cards import Card
from analysis.report.html import badge, items, table, text
from analysis.report.page import Section, render
from analysis.statistics.multiple import LEVEL
from harness import files, quantile
from harness.search import figures as searched
from harness.search import results, space
from harness.search.results import Row, Verdict
from harness.search.state import SeedRun, Trial, View
from harness.search.study import Study

if TYPE_CHECKING:
    from analysis.statistics.estimate import Interval

log = logging.getLogger(__name__)
_KIND = {"complete": "good", "pruned": "warn", "failed": "bad"}


def write(study: Study, view: View, trials: Sequence[object], folder: Path, *, figures: bool = True) -> Path:
    """Writes the page; returns its path.

    Args:
        trials: Optuna's own, for the importance of axes.
    """
    rows, found, spent = results.rows(study, view), results.verdict(study, view), results.hours(view)
    drawn = [cards.build(f"Trials over {key}", lambda key=key: searched.over_axis(study, view, rows, key))  # type: ignore[misc]
             for key in study.space.keys]  # fmt: skip
    if study.rules.objective.multi:
        drawn.insert(0, cards.build("Both objectives", lambda: searched.objectives(study, view, rows)))
    training, runs_part = _training(view)
    now = datetime.now(UTC)
    parts = [
        Section(anchor="summary", title="Summary", body=_summary(study, view, rows, found, spent)),
        Section(anchor="trials", title="Trials", body=_trials(study, rows, view)),
        Section(anchor="space", title="What was searched", body=_cards(drawn) + _importance(study, trials)),
        Section(anchor="ended", title="Pruned and failed", body=_ended(study, view)),
        *([Section(anchor="training", title="Training", body=_cards(training))] if training else []),
        *runs_part,
    ]
    facts = [
        ("trials", str(len(view.trials))), ("runs", str(len(view.everything()))),
        ("sampler", study.sampler(view.left_out)),
        ("GPU-hours spent", f"{spent.spent:.3g}"), ("saved by pruning", f"{spent.saved:.3g}"),
        ("budget", _budget(study)),
    ]  # fmt: skip
    every = [*drawn, *training]
    footer = f"Written {now:%Y-%m-%d %H:%M} UTC."
    page = render(study.name, facts, parts, cards.data(every), footer, kind="K search")
    path = folder / "index.html"
    files.write_text(path, page)
    if figures:
        save_figures(every, folder / "figures")
    return path


def _budget(study: Study) -> str:
    budget = study.rules.budget
    return f"{budget.runs} runs" + ("" if budget.gpu_hours is None else f", {budget.gpu_hours:g} GPU-hours")


def _summary(study: Study, view: View, rows: Sequence[Row], found: Verdict | None, spent: results.Hours) -> str:
    lines = []
    if found is None:
        lines.append(f"No winner yet: {text(view.over or 'the study is under way')}.")
    else:
        lines.append(f"Winner: <b>{text(study.space.name(found.trial.cell))}</b>.{_level(study, found)}")
        if study.rules.objective.multi:
            lines.append(_of_the_front(study, view))
        if found.interval is None:
            lines.append("No fresh seed has a value: it was named by its search seeds alone, which flatter it.")
        else:
            lines.append(
                f"On {_seeds(found.interval.seeds)} that no choice of a finalist was made by: pass@1"
                f" <b>{_points(found.interval)}</b> on the validation set."
            )
        for (name, gap, own), p in zip(found.against, found.adjusted, strict=True):
            d = gap.interval
            if not gap.method_level or p is None:
                sure = "These runs only: below three seeds nothing follows about the method."
            elif p < LEVEL:
                sure = f"A difference is shown (Holm-adjusted p = {p:.2g})."
            else:
                sure = f"No difference is shown (Holm-adjusted p = {p:.2g})."
            lines.append(
                f"{100 * d.estimate:+.2f} points [{100 * d.low:+.2f}, {100 * d.high:+.2f}] against {text(name)}"
                f" ({_points(own)}). {sure}"
            )
    lines.append(
        f"{spent.spent:.3g} GPU-hours spent (hours of the machine where a run takes no GPU), about {spent.saved:.3g}"
        f" saved by pruning; {spent.adopted} runs were in the store already."
    )
    held = results.finished(view.groups.get("held-out", ()), study)
    if held and found is not None:
        told = [f"seed {r.seed}: {', '.join(f'{text(n)} {100 * v:.2f} %' for n, v in _apart(r))}" for r in held]
        lines.append(f"Held-out benchmarks, the winner alone, pass@1 of the last evaluation: {'; '.join(told)}.")
    lines.append(
        "K was chosen on the validation set: the numbers of this page are not those to report for a benchmark."
    )
    asked = f'<p class="question">{text(study.question)}</p>' if study.question else ""
    return f'<div class="card summary">{asked}{items(lines)}</div>'


def _apart(run: SeedRun) -> list[tuple[str, float]]:
    """(benchmark, pass@1) of the last evaluation."""
    scores = run.look.measure.scores[max(run.look.measure.scores)]
    by: dict[str, list[float]] = {}
    for problem, score in scores.items():
        by.setdefault(problem.split("/")[0], []).append(score)
    return [(name, sum(found) / len(found)) for name, found in sorted(by.items())]


def _of_the_front(study: Study, view: View) -> str:
    """What the finalists of two objectives are worth on fresh seeds."""
    k, told = study.rules.objective.pass_k, []
    for number in view.finalists or ():
        trial = next(t for t in view.trials if t.number == number)
        runs = results.fresh(view, study, f"trial {number}")
        if runs:
            first = sum(r.look.measure.value(study.rules.objective.last) for r in runs) / len(runs)
            both = f"{100 * first:.2f} and {100 * results.second(runs, study):.2f} %"
            told.append(f"{text(study.space.name(trial.cell))}: {both}")
    named = f"Of the front it has the highest pass@1; what matters to you may be pass@{k}."
    return f"{named} On fresh seeds, pass@1 and pass@{k}: {'; '.join(told)}." if told else named


def _level(study: Study, found: Verdict) -> str:
    place = study.space.rank_of(found.trial.cell)
    if place is None:
        return ""
    K = found.trial.cell.get(space.LEVEL, quantile.short_level(*place))
    return f" Every K of this interval is the same experiment; write K = {K}."


def _trials(study: Study, rows: Sequence[Row], view: View) -> str:
    axes, multi = _columns(study), study.rules.objective.multi
    both = [f"pass@{study.rules.objective.pass_k} (%)"] if multi else []
    head = ["trial", *axes, "state", "seeds", "pass@1 (%)", "95 % interval", *both, "entropy", "hours", "note"]
    front = results.front(rows) if multi else frozenset()
    body = []
    for row in rows:
        trial, found = row.trial, row.interval
        won = trial.number == view.winner
        state = badge("winner", "good") if won else badge(trial.status, _KIND.get(trial.status, ""))
        reason = trial.reason if len(study.space.axes) == 1 else ""  # no room beside many axes; told below
        notes = [reason, "on the front" if trial.number in front else "", _outside(trial)]
        value = (
            f"{100 * found.estimate:.2f}"
            if found
            else f"({100 * row.partial:.2f})"
            if math.isfinite(row.partial)
            else ""
        )
        span = f"{100 * found.low:.1f} to {100 * found.high:.1f}" if found else ""
        body.append(
            (str(trial.number), *_values(study, trial), state, str(row.seeds), value, span,
             *([_number(100 * row.second, 2)] if multi else []), _number(row.entropy, 2), _number(row.hours, 2),
             text("; ".join(filter(None, notes))))
        )  # fmt: skip
    note = (
        '<p class="caption">Search seeds only; in brackets what a run had when it was ended. Intervals over seeds and'
        " problems, below three seeds over problems only, for these runs alone.</p>"
    )
    words = {"K in", "state", "95 % interval", "note"} | {
        text(axis.key.rpartition(".")[2]) for axis in study.space.axes
        if axis.kind == "categorical" and axis.key != space.RANK
    }  # fmt: skip
    numbers = [i for i, name in enumerate(head) if name not in words]
    return f'<div class="card">{table(head, body, numbers=numbers)}{note}</div>'


def _columns(study: Study) -> list[str]:
    """One column an axis, and the interval of K beside its rank."""
    found = []
    for key in study.space.keys:
        if key == space.RANK:
            found += [f"rank of {study.space.group_size}", "K in"]
        elif key == space.LEVEL and study.space.exact:
            found += ["rank", "K in"]
        else:
            found.append(text(key.rpartition(".")[2]))
    return found


def _values(study: Study, trial: Trial) -> list[str]:
    found = []
    for key in study.space.keys:
        value = trial.cell[key]
        place = study.space.rank_of(trial.cell) if key in (space.RANK, space.LEVEL) else None
        if place is not None:
            low, high = quantile.interval(*place)
            found += [str(place[0]), f"({float(low):g},&nbsp;{float(high):g}]"]
        else:
            found.append(f"{value:.3g}" if isinstance(value, float) else text(value))
    return found


def _outside(trial: Trial) -> str:
    broken = [f"{key} by {value:.3g}" for key, value in trial.constraints.items() if value > 0 and key != "health"]
    return f"outside: {', '.join(broken)}" if broken else ""


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def _ended(study: Study, view: View) -> str:
    lines = [
        f"trial {t.number}, {text(study.space.name(t.cell))}: <b>{text(t.status)}</b>, {text(t.reason)}"
        for t in view.trials if t.status in ("pruned", "failed")
    ]  # fmt: skip
    why = (
        "Pruning: Wilcoxon's signed-rank test on per-problem outcomes against the best trial at the same evaluations,"
        " and a deficit beyond what seeds make; or an entropy curve that collapsed or exploded."
    )
    return f'<div class="card">{items(lines) or "<p>None.</p>"}<p class="caption">{why}</p></div>'


def _importance(study: Study, trials: Sequence[object]) -> str:
    shares = results.importance(study, trials)
    if not shares:
        return ""
    rows = [(f"<code>{text(key)}</code>", f"{100 * value:.0f} %") for key, value in shares.items()]
    told = sum(t.state.name == "COMPLETE" for t in trials)  # type: ignore[attr-defined]
    few = f" From {told} trials over {len(shares)} axes it is a hint at most." if told < 20 * len(shares) else ""
    note = (
        f'<p class="caption">Share of the variation in pass@1 by axis (PED-ANOVA over the {told} trials that were'
        f" told).{few}</p>"
    )
    return f'<div class="card"><h3>Importance</h3>{table(("axis", "share"), rows, numbers=(1,))}{note}</div>'


def _training(view: View) -> tuple[list[Card], list[Section]]:
    """Curves, health and provenance of the study's runs, from the sweep report's own parts."""
    from analysis.sources import loading
    from analysis.sources.store import load_run

    root = loading.default_root()
    runs = [
        load_run(root / r.run, history="harness") for r in view.everything() if (root / r.run / "spec.json").exists()
    ]
    if not runs:
        return [], []
    study = studies.of(runs)
    health = {run.id: verdict for run in study.runs if (verdict := studies.health_of(run)) is not None}
    drawn = [
        cards.build("Entropy, accuracy and length over training", lambda: curves.entropy(study)),
        cards.build("pass@k over training", lambda: curves.pass_at_k(study, study.ks)),
        cards.build("Zero-advantage ratio", lambda: curves.zero_share(study)),
    ]
    now = datetime.now(UTC)
    return drawn, [
        Section(anchor="runs", title="Runs and their health", body=sections.runs(study, health, root)),
        Section(anchor="provenance", title="Provenance", body=sections.provenance(study, None, now)),
    ]


def _cards(drawn: Sequence[Card]) -> str:
    absent = [card for card in drawn if card.chart is None]
    return "".join(cards.html(card.chart) for card in drawn if card.chart is not None) + cards.absent(absent)


def _points(interval: Interval) -> str:
    return f"{100 * interval.estimate:.2f} % [{100 * interval.low:.2f}, {100 * interval.high:.2f}]"


def _seeds(count: int) -> str:
    return f"{count} fresh seed" + "s" * (count != 1)
