"""Anthropomorphic words in responses (Fig. 2, 7) and the tokens of highest entropy (Fig. 3, 8)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.comparison.ablation import Study
from analysis.comparison.arms import Arm
from analysis.figures.chart import Axis, Bar, Chart, Panel
from analysis.figures.curves import pass_panel
from analysis.figures.lines import BAND_NOTE, absent, left_out, over_steps
from analysis.sources import outcomes, parquet
from analysis.sources.tally import ALL
from harness.errors import HarnessError

WORDS = "response/words_mean"
MOST_ARMS = 4
MIN_COUNT = 5
"""Occurrences at a step below which a token is left out."""


def words(study: Study) -> Chart:
    """Words such as wait, perhaps, alternatively in a response over steps, with pass@1.

    Raises:
        HarnessError: no run counted them.
    """
    counts = over_steps(study, WORDS, "words per response", title="Anthropomorphic words", low=0.0)
    panels, notes = [counts], list(absent(study, WORDS))
    try:
        panels.append(pass_panel(study, 1, ALL))
    except HarnessError as error:
        notes.append(str(error))
    counted = next((w for run in study.runs if (w := run.get("words", None))), ())
    listed = f" ({', '.join(map(str, counted))})" if counted else ""
    return Chart(
        key="words", title="Anthropomorphic words and accuracy", panels=tuple(panels), columns=2,
        caption=f"Words of the configured list{listed}, counted in the text of training responses. {BAND_NOTE}",
        notes=tuple(notes),
    )  # fmt: skip


def tokens(study: Study, steps: tuple[int, ...] | None = None, top: int = 10) -> Chart:
    """The tokens of highest mean entropy at chosen steps, rows are arms and columns are steps.

    Args:
        steps: recorded steps; None takes the first and the last that were recorded.
        top: tokens a panel.

    Raises:
        HarnessError: no run recorded tokens, or not at these steps.
    """
    recorded = {arm.key: token_steps(arm) for arm in study.arms}
    known = sorted(set().union(*recorded.values()))
    if not known:
        raise HarnessError(
            "tokens: no run recorded any; list steps in token_steps (files in runs/<id>/outcomes/tokens)"
        )
    chosen = tuple(dict.fromkeys((known[0], known[-1]))) if steps is None else steps
    unknown = [step for step in chosen if step not in known]
    if unknown:
        raise HarnessError(f"tokens at step {unknown[0]}: recorded at {', '.join(map(str, known[:12]))}")
    panels = []
    for arm in study.arms[:MOST_ARMS]:
        for step in chosen:
            rows = token_table(arm, step)
            if rows is not None and len(rows):
                panels.append(_panel(arm, step, rows.head(top)))
    columns = 4 if len(chosen) == 2 and len(study.arms) > 2 else len(chosen)
    return Chart(
        key="tokens", title="Tokens of highest entropy", panels=tuple(panels), columns=columns,
        caption=f"Mean entropy of the old policy where the token was drawn, over an arm's seeds; tokens drawn fewer"
        f" than {MIN_COUNT} times at that step are left out.",
        notes=left_out(study, MOST_ARMS),
    )  # fmt: skip


def token_steps(arm: Arm) -> set[int]:
    """Steps at which any run of the arm recorded its tokens."""
    return {step for run in arm.runs for step in outcomes.steps(run, "tokens")}


def token_table(arm: Arm, step: int) -> pd.DataFrame | None:
    """Tokens of one step pooled over the arm's seeds: text, count, mean_entropy (nats); highest entropy
    first.
    """
    frames = []
    for run in arm.runs:
        for recorded, file in outcomes.files(run, "tokens"):
            if recorded == step:
                try:
                    frames.append(parquet.read(file, ["text", "count", "mean_entropy"]).to_pandas())
                except parquet.Damaged:
                    continue  # a damaged file is among the report's warnings; the other seeds still count
    if not frames:
        return None
    rows = pd.concat(frames, ignore_index=True)
    rows["total"] = rows["count"] * rows["mean_entropy"].astype(np.float64)
    pooled = rows.groupby("text", as_index=False)[["count", "total"]].sum()
    pooled = pooled[pooled["count"] >= MIN_COUNT]
    pooled["mean_entropy"] = pooled["total"] / pooled["count"]
    return pooled.sort_values("mean_entropy", ascending=False, ignore_index=True)[["text", "count", "mean_entropy"]]


def _panel(arm: Arm, step: int, rows: pd.DataFrame) -> Panel:
    bars = tuple(
        Bar(at=visible(str(row.text)), value=float(row.mean_entropy), name=arm.legend, color=arm.color,
            text=f"nats, {row.count} times")
        for row in rows.itertuples(index=False)
    )  # fmt: skip
    return Panel(x=Axis(label="mean entropy (nats)", low=0.0), y=Axis(label=""), marks=bars, horizontal=True,
                 title=f"{arm.short} · step {step}")  # fmt: skip


def visible(text: str) -> str:
    """A token as it can be read on an axis: spaces and line breaks shown, never empty."""
    shown = text.replace(" ", "␣").replace("\n", "\\n").replace("\t", "\\t")
    return shown if shown.strip() else repr(text)
