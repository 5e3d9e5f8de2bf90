"""`harness replay RUN` and `harness advise RUN`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from analysis import advice, parquet, replay, replay_text
from harness import files, outcomefiles, quantile
from harness.store import Store

_ENTROPY = ["entropy", "length"]


def run(store: Store, prefix: str, levels: Sequence[str], out: Path | None, *, figure: bool = True) -> str:
    """The replay of a run as text; writes replay.csv and the figure to `out`, or reports/replay/<run>.

    Raises: HarnessError where the run is unknown or has no training outcomes, or a K is not in (0, 1).
    """
    run = store.find(prefix)
    for text in levels:
        quantile.level(text)
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
        from analysis.figures import draw, replayed

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


def advise(store: Store, prefix: str) -> str:
    """The rules of thumb on a run as text. Raises: as `run`."""
    run = store.find(prefix)
    return advice.text(f"{run} {store.spec(run).get('label', run)}", facts(store, run))


def facts(store: Store, run: str) -> advice.Facts:
    """What the rules look at, from a run's training outcomes."""
    groups = replay.read(store.folder(run))
    steps, entropy = entropies(store.folder(run))
    late = entropy[len(entropy) - max(1, len(entropy) // 4) :] if len(entropy) else entropy
    early = entropy[: max(1, len(entropy) // 10)]
    return advice.Facts(
        baseline=str(store.spec(run)["config"]["baseline"]["name"]),
        group_size=groups.group_size, smallest_group=int(groups.size.min()), levels=len(groups.levels),
        entropy=float(late.mean()) if len(late) else None, early_entropy=float(early.mean()) if len(early) else None,
        success=float(groups.successes.sum() / groups.size.sum()),
        hard_at=float(replay.replay(groups, "0.4").hard.mean()),
    )  # fmt: skip


def entropies(folder: Path) -> tuple[replay.Counts, replay.Floats]:
    """(steps, nats a token) from the training outcomes: the token mean of every step that recorded it."""
    steps, values = [], []
    for step, path in outcomefiles.by_step(folder, "train").items():
        try:
            table = parquet.read(path, _ENTROPY)
        except parquet.Damaged:
            continue  # it recorded none, or `replay.read` has named it already
        entropy, length = (table[name].to_numpy().astype(np.float64) for name in _ENTROPY)
        known = np.isfinite(entropy) & (length > 0)
        if known.any():
            steps.append(step)
            values.append(float(np.average(entropy[known], weights=length[known])))
    return np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64)
