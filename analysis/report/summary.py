"""The summary in words: it states only what the intervals support."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.comparison.ablation import Study
from analysis.comparison.arms import Arm
from analysis.comparison.results import Cell, Results
from analysis.report.tables import signed
from analysis.statistics.components import MIN_SEEDS
from analysis.statistics.entropy import Health

MOST = 8
"""Arms that a sentence names; more are counted."""


def sentences(study: Study, results: Results | None, health: Mapping[str, Health], absent: str = "") -> list[str]:
    """Plain-text sentences for the head of the report.

    Args:
        results: None where accuracy cannot be compared.
        health: verdicts by run id.
        absent: why there are no results.
    """
    lines = [seeds(study, logged=results is not None and results.logged)]
    if results is not None:
        for k in results.ks:
            lines += accuracy(results, k)
        lines += [detectable(results)] if results.against is not None else []
    elif any(tally.steps for tally in study.tallies.values()):
        lines.append(f"Nothing is said about accuracy: {absent or 'the evaluations cannot be compared'}.")
    else:
        lines.append("No accuracy was recorded, neither outcomes nor logged scores, so nothing is said about it.")
    return [line for line in [*lines, *entropy(study, health)] if line]


def seeds(study: Study, *, logged: bool = False) -> str:
    """What the number of seeds allows."""
    few = [arm for arm in study.arms if arm.seeds < MIN_SEEDS]
    if not few:
        cover = "training seeds; a log does not tell problems apart" if logged else "training seeds and problems"
        return f"Every arm has at least {MIN_SEEDS} seeds; intervals cover {cover}."
    who = "Every arm has" if len(few) == len(study.arms) else f"{_listed([arm.short for arm in few])} have"
    if len(few) == 1 and len(study.arms) > 1:
        who = f"{few[0].short} has"
    return (
        f"{who} fewer than {MIN_SEEDS} seeds: what follows on them describes these runs, and no claim about the method"
        " follows."
    )


def accuracy(results: Results, k: int) -> list[str]:
    """One sentence an arm that differs, and one for those that do not."""
    if results.against is None:
        arm = results.arms[0]
        alone = results.cell(arm, results.primary, k).interval
        interval = f"95 % interval {_percent(alone.low)} to {_percent(alone.high)}"
        if not math.isfinite(alone.low):
            interval = "without interval"
        elif not alone.method_level:
            interval += ", these runs only"
        return [f"{arm.label}: pass@{k} {_percent(alone.estimate)} ({interval})."]
    cells = [(arm, results.cell(arm, results.primary, k)) for arm in results.arms]
    compared = [(arm, cell) for arm, cell in cells if cell.difference is not None]
    found = [(arm, cell) for arm, cell in compared if cell.shown]
    even = [(arm, cell) for arm, cell in compared if not cell.shown]
    largest = sorted(found, key=lambda pair: -abs(_estimate(pair[1])))[:MOST]
    lines = [_claim(arm, results, k, cell) for arm, cell in found if any(arm is other for other, _ in largest)]
    if len(found) > MOST:
        lines.append(
            f"Differences in pass@{k} are shown for {len(found) - MOST} more arms, smaller ones: see the table."
        )
    if even:
        listed = _listed([f"{arm.short} {_points(cell)}" for arm, cell in even])
        who = listed if len(even) <= MOST else f"{len(even)} of {len(compared)} arms"
        lines.append(f"No difference in pass@{k} from {results.base_name} is shown for {who}: " + _why_not(even))
    return lines


def detectable(results: Results) -> str:
    """What the design could have found."""
    base = results.against
    if base is None:
        return ""
    k = results.ks[0]
    compared = [d for arm in results.arms if (d := results.cell(arm, results.primary, k).difference) is not None]
    tested = [
        cell for arm in results.arms for j in results.ks
        if (cell := results.cell(arm, results.primary, j)).adjusted is not None
    ]  # fmt: skip
    found = [100 * d.detectable(len(tested)) for d in compared if d.method_level and d.scatters]
    if not found:
        few = any(not d.interval.method_level for d in compared)
        short = f"fewer than {MIN_SEEDS} seeds do not show how far seeds scatter"
        why = short if few else "their scores do not scatter"
        return f"How small a difference these runs could have found cannot be said: {why}."
    problems = results.cell(base, results.primary, k).interval.problems
    over = f" and {problems} problems" if problems else ""
    least, most = min(found), max(found)
    if math.isinf(least):
        return f"With these seeds{over}, no difference in pass@{k} could have been found with 80 % power."
    few_found = math.isinf(most)
    most = max(value for value in found if math.isfinite(value))
    size = f"{most:.1f}" if most - least < 0.1 else f"{least:.1f} to {most:.1f}"
    arms = "" if most - least < 0.1 else ", depending on the arm"
    rest = "; for some arms no difference could have been found" if few_found else ""
    return (
        f"With these seeds{over}, a true difference in pass@{k} is found with about 80 % power, after the correction"
        f" for {len(tested)} comparisons, only if it is {size} points or more{arms}{rest}."
    )


def entropy(study: Study, health: Mapping[str, Health]) -> list[str]:
    """Which arms collapsed or exploded, counted in runs."""
    lines = []
    for verdict, verb in (
        ("collapsed", "collapsed"), ("exploded", "exploded"), ("not a number", "was NaN or infinite")
    ):  # fmt: skip
        parts = []
        for arm in study.arms:
            hit = [h for run in arm.runs if (h := health.get(run.id)) is not None and h.verdict == verdict]
            if hit:
                first = min(h.began for h in hit if h.began is not None)
                since = f"from step {first}" if len(hit) == 1 else f"first at step {first}"
                over = sum(not h.ongoing for h in hit)
                back = "" if not over else "; over by the end" + (f" in {over}" if len(hit) > 1 else "")
                parts.append(f"{len(hit)} of {len(arm.runs)} runs of {arm.short} ({since}{back})")
        if parts:
            lines.append(f"Entropy {verb} in {_listed(parts)}.")
    judged = [h for h in health.values() if h.verdict != "short"]
    if judged and not lines:
        lines.append("No run's entropy collapsed or exploded by the stated rules.")
    return [*lines, *_drifting(study, health)]


def _drifting(study: Study, health: Mapping[str, Health]) -> list[str]:
    """Which runs are on the way to a collapse or an explosion, or have little entropy to lose."""
    lines = []
    for verdict, words in (
        ("falling", "falling"), ("rising", "rising"), ("low", "at or below 0.05 nats, without having collapsed,")
    ):  # fmt: skip
        counts = [sum(run.id in health and health[run.id].verdict == verdict for run in arm.runs) for arm in study.arms]
        parts = [f"{n} of {len(arm.runs)} runs of {arm.short}" for arm, n in zip(study.arms, counts, strict=True) if n]
        where = _listed(parts) if len(parts) <= MOST else f"{sum(counts)} of {len(study.runs)} runs"
        lines += [f"Entropy is {words} in {where}."] if parts else []
    return lines


def _claim(arm: Arm, results: Results, k: int, cell: Cell) -> str:
    base = results.base(arm)
    if cell.difference is None or base is None:
        return ""
    d = cell.difference.interval
    way = "above" if d.estimate > 0 else "below"
    where = "" if len(results.benchmarks) == 1 else f" over {len(results.benchmarks) - 1} benchmarks"
    return (
        f"{arm.short} is {abs(100 * d.estimate):.1f} points {way} {base.short} in pass@{k}{where}"
        f" (95 % interval {signed(100 * d.low)} to {signed(100 * d.high)}, Holm-adjusted p = {cell.adjusted:.2g};"
        f" {d.seeds} seeds or more an arm)."
    )


def _estimate(cell: Cell) -> float:
    return 0.0 if cell.difference is None else cell.difference.interval.estimate


def _why_not(even: Sequence[tuple[Arm, Cell]]) -> str:
    """Why nothing is claimed."""
    compared = [cell.difference for _, cell in even if cell.difference is not None]
    values = [cell.adjusted for _, cell in even if cell.adjusted is not None]
    if not values:
        if any(d.interval.method_level for d in compared):
            return "seeds that agree exactly do not show how far they scatter, so nothing is tested."
        if not any(math.isfinite(d.interval.low) for d in compared):
            return f"below {MIN_SEEDS} seeds logged scores have no intervals."
        return f"below {MIN_SEEDS} seeds nothing is tested, and the intervals speak of these runs only."
    smallest = min(values)
    return f"after Holm, p is {smallest:.2g}{' or more' if len(even) > 1 else ''}."


def _points(cell: Cell) -> str:
    if cell.difference is None:
        return ""
    d = cell.difference.interval
    if not math.isfinite(d.low):
        return f"({signed(100 * d.estimate)} points)"
    return f"({signed(100 * d.estimate)} points, {signed(100 * d.low)} to {signed(100 * d.high)})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _listed(parts: Sequence[str]) -> str:
    if len(parts) <= 1:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
