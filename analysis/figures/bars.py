"""Figures of final values: mask ablation, K sensitivity, paired differences, outcome map."""

from __future__ import annotations

import numpy as np

from analysis.comparison.ablation import Study
from analysis.comparison.arms import Arm
from analysis.comparison.results import Results
from analysis.figures.chart import Axis, Bar, Chart, Heat, Panel, Rule
from analysis.sources import tally
from analysis.sources.tally import ALL
from analysis.statistics import estimate
from analysis.statistics.estimate import Interval
from harness.errors import HarnessError

_LONG = 44
"""Characters of a row's label that leave no room for two panels side by side."""
_KNOBS = ("recipe.clip_high", "verl.actor_rollout_ref.actor.clip_ratio_high")


def mask_ablation(results: Results) -> Chart:
    """QAE beside POS-MASK, NEG-MASK and the mean baseline at each eps_high (Fig. 6).

    Raises:
        HarnessError: no arm has a mask.
    """
    masked = [arm for arm in results.arms if _mask(arm) in ("positive", "negative")]
    if not masked:
        raise HarnessError(
            "mask ablation: no run has baseline.mask=positive or negative; sweep baseline.mask to get this figure"
        )
    levels = {arm.runs[0].K for arm in masked} | {None}
    shown = [arm for arm in results.arms if arm.runs[0].K in levels]
    panels = []
    for k in results.ks:
        bars = [
            _bar(results.cell(arm, results.primary, k).interval, arm, at=_clip(arm), name=arm.name) for arm in shown
        ]
        panels.append(
            Panel(x=Axis(label="clip ratio eps_high"), y=Axis(label=f"pass@{k} (%)", low=0.0), marks=tuple(bars),
                  title=f"pass@{k}, {results.primary}")
        )  # fmt: skip
    return Chart(
        key="mask_ablation", title="One-sided masks", panels=tuple(panels), columns=2,
        caption="POS-MASK masks successes of easy queries only, NEG-MASK failures of hard queries only."
        f" {results.intervals}.",
    )  # fmt: skip


def settings(results: Results) -> Chart:
    """Every baseline in every setting: models, recipes, group sizes, clip ratios (Table 1, the bars by model).

    Raises:
        HarnessError: one setting only.
    """
    arms = [arm for arm in results.arms if arm.name]
    if len({arm.setting for arm in arms}) < 2:
        raise HarnessError("accuracy by setting: every arm has the same setting but for its baseline")
    axis = arms[0].setting.partition("=")[0]
    shared = all(arm.setting.startswith(f"{axis}=") for arm in arms)
    places = [arm.setting.removeprefix(f"{axis}=" if shared else "").replace(" · ", "\n") for arm in arms]
    ordered = sorted(zip(places, arms, strict=True), key=lambda pair: places.index(pair[0]))
    panels = []
    for k in results.ks:
        bars = [_bar(results.cell(arm, results.primary, k).interval, arm, at, arm.name) for at, arm in ordered]
        panels.append(
            Panel(x=Axis(label=axis if shared else ""), y=Axis(label=f"pass@{k} (%)", low=0.0), marks=tuple(bars),
                  title=f"pass@{k}, {results.primary}")
        )  # fmt: skip
    return Chart(
        key="settings", title="Accuracy by setting", panels=tuple(panels), columns=2,
        caption=f"All arms at step {results.step}. {results.intervals}.",
    )  # fmt: skip


def k_sensitivity(study: Study, results: Results | None) -> Chart:
    """Entropy, accuracy and response length over K, with the other baselines beside (Fig. 9).

    Raises:
        HarnessError: fewer than two values of K.
    """
    levels = {run.K for run in study.runs if run.metrics and run.K is not None}
    if len(levels) < 2:
        raise HarnessError(f"K sensitivity: logs of {len(levels)} value(s) of baseline.K; sweep at least 2")
    panels = []
    for metric, label, title in (
        ("actor/entropy", "entropy (nats per token)", "Late entropy"),
        ("response_length/mean", "response length (tokens)", "Late response length"),
    ):
        bars = tuple(bar for arm in _by_K(study.arms) if (bar := _late(study, arm, metric)) is not None)
        if bars:
            panels.append(Panel(x=Axis(label="K"), y=Axis(label=label), marks=bars, title=title, dots=True))
    if results is not None:
        k = results.ks[0]
        bars = tuple(
            _bar(results.cell(arm, results.primary, k).interval, arm, at=_K(arm)) for arm in _by_K(results.arms)
        )
        rate = Axis(label=f"pass@{k} (%)", bounds=(0.0, 100.0))
        panel = Panel(x=Axis(label="K"), y=rate, marks=bars, title="Final accuracy", dots=True)
        panels.insert(1, panel)
    if not panels:
        study.require("actor/entropy")
    accuracy = "" if results is None else f" Accuracy: {results.intervals}."
    return Chart(
        key="k_sensitivity", title="Sensitivity to K", panels=tuple(panels),
        caption="Entropy and length are means over the last quarter of training, with Student's t intervals over seeds"
        f" where there are three or more.{accuracy} The paper expects higher entropy and longer responses for"
        " larger K.",
    )  # fmt: skip


def paired_differences(results: Results) -> Chart:
    """Every arm minus the baseline arm on the same problems, with intervals.

    Raises:
        HarnessError: a single arm, which has nothing to be compared with.
    """
    if results.against is None:
        raise HarnessError("paired differences: the sweep has one arm; compare at least two")
    others = [arm for arm in results.arms if results.base(arm) is not None]
    names = _distinct(others)
    panels = []
    for k in results.ks:
        bars = []
        for benchmark in reversed(results.benchmarks):
            for arm, name in zip(others, names, strict=True):
                found = results.cell(arm, benchmark, k).difference
                if found is not None:
                    bars.append(_bar(found.interval, arm, at=f"{benchmark}: {name}"))
        panels.append(
            Panel(x=Axis(label="difference (points)"), y=Axis(label=""), horizontal=True, dots=True,
                  marks=(Rule(value=0.0, vertical=True), *bars), title=f"Difference in pass@{k}")
        )  # fmt: skip
    longest = max(len(mark.at) for panel in panels for mark in panel.marks if isinstance(mark, Bar))
    return Chart(
        key="paired_differences", title=f"Differences from {results.base_name}", panels=tuple(panels),
        columns=1 if longest > _LONG else 2,
        caption=("" if results.logged else "Same problems for both arms, ")
        + f"evaluation at step {results.step}. {results.intervals}.",
    )  # fmt: skip


def outcome_map(study: Study, results: Results, k: int = 1) -> Chart:
    """pass@k of every problem in every arm, seeds averaged, problems from easy to hard.

    Raises:
        HarnessError: no outcome files, which alone know problems.
    """
    if results.logged:
        raise HarnessError("outcomes by problem: a log holds none; they are in the harness's outcome files")
    frames = [[study.tallies[run.id].at(results.step) for run in arm.runs] for arm in results.arms]
    panels = []
    for benchmark in [name for name in results.benchmarks if name != ALL]:
        scores = tally.shared(frames, k, benchmark)
        values = np.stack([x.mean(axis=0) for x in scores.values])
        order = np.argsort(-values.mean(axis=0), kind="stable")
        panels.append(
            Panel(x=Axis(label=f"{len(order)} problems, easiest first"), y=Axis(label=""), title=benchmark,
                  marks=(Heat(values=values[:, order], columns=tuple(scores.problems[i][1] for i in order),
                              rows=tuple(_distinct(results.arms)), label=f"pass@{k}"),))
        )  # fmt: skip
    return Chart(
        key="outcome_map", title="Outcomes by problem", panels=tuple(panels), columns=1,
        caption=f"Each column is one problem at step {results.step}; means over samples and seeds.",
    )  # fmt: skip


def _bar(interval: Interval, arm: Arm, at: str, name: str = "") -> Bar:
    seeds = f"{interval.seeds} seed{'s' * (interval.seeds != 1)}"
    if not np.isfinite(interval.low):
        return Bar(at=at, value=100 * interval.estimate, name=arm.legend, color=arm.color, text=seeds)
    return Bar(at=at, value=100 * interval.estimate, low=100 * interval.low, high=100 * interval.high,
               name=name or arm.legend, color=arm.color,
               text=f"[{100 * interval.low:.1f}, {100 * interval.high:.1f}], {seeds}")  # fmt: skip


def _late(study: Study, arm: Arm, metric: str) -> Bar | None:
    curves = study.curves(arm, metric)
    values = np.array([]) if curves is None else curves.late_means()
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    found = estimate.over_seeds(values, rate=False)
    bounded = np.isfinite(found.low)
    return Bar(at=_K(arm), value=found.estimate, low=found.low if bounded else None,
               high=found.high if bounded else None, name=arm.legend, color=arm.color)  # fmt: skip


def _by_K(arms: tuple[Arm, ...]) -> list[Arm]:
    """Unmasked arms: the baselines without K first, then by K."""
    unmasked = [arm for arm in arms if _mask(arm) in (None, "both")]
    return sorted(unmasked, key=lambda arm: arm.runs[0].K or 0.0)


def _K(arm: Arm) -> str:
    K = arm.runs[0].K
    return (arm.name or arm.short).replace(" ", "\n") if K is None else f"{K:g}"


def _mask(arm: Arm) -> str | None:
    run = arm.runs[0]
    return run.get("baseline.mask", None) if run.get("baseline.name", None) == "qae" else None


def _clip(arm: Arm) -> str:
    for key in _KNOBS:
        value = arm.runs[0].get(key, None)
        if value is not None:
            return f"{float(value):g}"
    return "not set"


def _distinct(arms: tuple[Arm, ...] | list[Arm]) -> list[str]:
    """Short labels, or the full ones where the short ones clash."""
    short = [arm.short for arm in arms]
    return short if len(set(short)) == len(short) else [arm.label for arm in arms]
