"""Figures over training steps: entropy, shares of zero advantage, pass@k."""

from __future__ import annotations

from analysis.comparison.ablation import Study
from analysis.comparison.palette import NEGATIVE, POSITIVE, ZERO
from analysis.figures.chart import Axis, Chart, Curve, Layer, Panel, Rule
from analysis.figures.lines import BAND_NOTE, MOST_PANELS, STEP, absent, left_out, marks, over_steps
from analysis.sources.tally import ALL
from harness.errors import HarnessError

ENTROPY = "entropy (nats per token)"
ZERO_RULE = Rule(value=80.0, text="80 %, as in the paper")
SIGNS = (("zero", ZERO), ("positive", POSITIVE), ("negative", NEGATIVE))


def entropy(study: Study) -> Chart:
    """Policy entropy, pass@1 and response length over steps (the paper's Fig. 1, 10 and 11)."""
    panels = [over_steps(study, "actor/entropy", ENTROPY, title="Policy entropy", low=0.0)]
    notes = list(absent(study, "actor/entropy"))
    try:
        panels.append(pass_panel(study, 1, ALL))
    except HarnessError as error:
        notes.append(str(error))
    try:
        panels.append(over_steps(study, "response_length/mean", "response length (tokens)", title="Response length"))
    except HarnessError as error:
        notes.append(str(error))
    return Chart(
        key="entropy",
        title="Entropy, accuracy and length over training",
        panels=tuple(panels),
        log=True,
        caption=f"Entropy is verl's actor/entropy, that of the policy before the update. {BAND_NOTE}",
        notes=tuple(notes),
    )


def zero_share(study: Study) -> Chart:
    """Share of responses whose advantage is exactly zero, one line an arm (Fig. 5c's lower edge)."""
    panel = over_steps(
        study,
        "advantage/zero_share",
        "responses with zero advantage (%)",
        factor=100.0,
        low=0.0,
        high=100.0,
        rules=(ZERO_RULE,),
    )
    return Chart(
        key="zero_share",
        title="Zero-advantage ratio",
        panels=(panel,),
        columns=1,
        caption=f"Share of all responses of a step that give no gradient. {BAND_NOTE}",
        notes=absent(study, "advantage/zero_share"),
    )


def entropy_by_sign(study: Study) -> Chart:
    """Entropy of responses with positive, negative and any advantage over steps (Fig. 4 left, 5b)."""
    study.require("entropy/positive")
    panels = []
    for sign, title in (
        ("all", "All responses"),
        ("positive", "Positive advantage"),
        ("negative", "Negative advantage"),
    ):
        name = f"entropy/{sign}"
        if any(run.has(name) for run in study.runs):
            panels.append(over_steps(study, name, ENTROPY, title=title, low=0.0))
    return Chart(
        key="entropy_by_sign",
        title="Entropy by the sign of the advantage",
        panels=tuple(panels),
        log=True,
        caption="Token mean over the responses of one sign, old policy; a step without any such response has"
        f" no value. {BAND_NOTE}",
        notes=absent(study, *(f"entropy/{sign}" for sign in ("all", "positive", "negative"))),
    )


def advantage_shares(study: Study) -> Chart:
    """Responses by zero, positive and negative advantage, stacked over steps, a panel an arm (Fig. 5c)."""
    study.require("advantage/zero_share")
    panels: list[Panel] = []
    for arm in study.arms[:MOST_PANELS]:
        curves = {sign: study.curves(arm, f"advantage/{sign}_share", 100.0) for sign, _ in SIGNS}
        layers = []
        for sign, color in SIGNS:
            found = curves[sign]
            if found is not None:
                layers.append(Layer(x=found.steps.astype(float), y=found.mean(), name=f"{sign} advantage", color=color))
        if layers:
            panels.append(
                Panel(
                    x=STEP,
                    y=Axis(label="share of responses (%)", low=0.0, high=100.0),
                    marks=(*layers, ZERO_RULE),
                    title=f"{arm.short} · {arm.legend.rsplit(' · ', 1)[-1]}",
                )
            )
    return Chart(
        key="advantage_shares",
        title="Responses by advantage",
        panels=tuple(panels),
        caption="Mean over an arm's seeds at every step; the three shares add up to 100 %.",
        notes=(*absent(study, "advantage/zero_share"), *left_out(study)),
    )


def pass_at_k(study: Study, ks: tuple[int, ...] = (1, 16), benchmark: str | None = None) -> Chart:
    """Unbiased pass@k over steps, from per-sample outcomes (Fig. 5a).

    Args:
        benchmark: one evaluation set; None is the mean of all.

    Raises:
        HarnessError: a benchmark that no run has, or no k that the samples allow.
    """
    name = benchmark or ALL
    panels, notes = [], []
    for k in ks:
        try:
            panels.append(pass_panel(study, k, name))
        except HarnessError as error:
            notes.append(str(error))
    if not panels:
        raise HarnessError(notes[0])
    source = "outcome files" if any(t.steps for t in study.tallies.values()) else "logged metrics"
    return Chart(
        key="pass_at_k" if benchmark is None else f"pass_at_k_{benchmark}",
        columns=2,
        title="pass@k over training" if benchmark is None else f"pass@k over training, {benchmark}",
        panels=tuple(panels),
        caption=f"Unbiased estimate from {source}, {study.samples or 'unknown'} samples a problem; {name}. {BAND_NOTE}",
        notes=tuple(notes),
    )


def pass_panel(study: Study, k: int, benchmark: str) -> Panel:
    """One panel of pass@k over steps. Raises: HarnessError where no run has it."""
    if benchmark != ALL and study.benchmarks and benchmark not in study.benchmarks:
        raise HarnessError(f"benchmark {benchmark!r}: the runs have {', '.join(study.benchmarks)}")
    found: list[Curve] = []
    for arm in study.arms:
        found += marks(arm, study.pass_curves(arm, k, benchmark), points=True, low=0.0, high=100.0)
    if not found:
        have = (
            f"{study.samples} samples a problem allow up to pass@{study.samples}"
            if study.samples
            else ("none of the runs has outcome files or logged it")
        )
        raise HarnessError(f"pass@{k} of {benchmark}: {have}")
    return Panel(
        x=STEP, y=Axis(label=f"pass@{k} (%)", bounds=(0.0, 100.0)), marks=tuple(found), title=f"pass@{k}, {benchmark}"
    )
