"""Which names mean the same metric in different verl versions and in other people's logs."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Each group is one quantity. The first name is the pinned verl's; the last ones are those of plain CSV logs.
# verl aggregates actor/entropy by loss_agg_mode: two runs compare only at an equal mode, whatever the name.
SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("actor/entropy", "actor/entropy_loss", "entropy_avg"),
    ("actor/pg_loss", "actor/policy_loss"),
    ("actor/ppo_kl", "actor/approx_kl"),
    ("critic/score/mean", "critic/scores/mean", "reward_avg"),
    ("response_length/mean", "critic/response_length/mean", "avg_response_len"),
    ("training/global_step", "global_step"),
    ("timing_s/step", "perf/time_per_step"),
)
_VALIDATION = re.compile(r"^val-(?:core|aux)/(?P<path>.+)/(?P<kind>\w+)@(?P<n>\d+|\*)(?P<rest>/.+)?$")
_OLD_VALIDATION = "val/test_score/"
STEPS = (
    "step",
    "_step",
    "global_step",
    "training/global_step",
    "trainer/global_step",
    "train/global_step",
    "iteration",
    "iter",
)
"""What logs call their step, the likeliest first."""
_EVALUATION = re.compile(r"(?:^|/)(?:val|valid|validation|eval|evaluation|test)(?:[-_./ ]|$)|@(?:\d+|\*)(?:/|$)", re.I)


def is_clock(name: str) -> bool:
    """Whether a column counts steps or time instead of measuring: the step itself, W&B's own `_timestamp`."""
    return name.startswith("_") or name.lower() in STEPS


def is_measured(name: str) -> bool:
    """Whether a column says something of the model: it is neither a clock nor a duration."""
    return not (is_clock(name) or name.startswith("timing"))


def is_training(name: str) -> bool:
    """Whether a metric can be logged by training only: it is measured, and not by an evaluation."""
    return is_measured(name) and not _EVALUATION.search(name)


def resolve(name: str, available: Iterable[str]) -> str | None:
    """The name among `available` that means `name`, or None.

    The exact name wins; then a synonym; then the same validation metric under val-core or val-aux (verl
    moves a key between the two when N changes). `.../mean@*` asks for the largest N that was logged. A
    stated N is never replaced by another one: best@8 and best@16 are different quantities.
    """
    names = available if isinstance(available, (set, dict)) else dict.fromkeys(available)
    if name in names:
        return name
    for group in SYNONYMS:
        if name in group:
            return next((other for other in group if other in names), None)
    return _validation(name, names)


def _validation(name: str, names: Iterable[str]) -> str | None:
    wanted = _VALIDATION.match(name)
    if wanted is None:
        if not name.startswith(_OLD_VALIDATION):
            return None
        source = name.removeprefix(_OLD_VALIDATION)
        return _largest(((source, "reward"), (source, "acc")), "mean", "*", None, names)
    found = _largest(((wanted["path"],),), wanted["kind"], wanted["n"], wanted["rest"], names)
    if found is None and wanted["kind"] == "mean" and wanted["n"] in ("1", "*") and not wanted["rest"]:
        # verl before 0.3 logged one greedy score per data source.
        old = _OLD_VALIDATION + wanted["path"].rsplit("/", 1)[0]
        found = old if old in names else None
    return found


def _largest(paths: Iterable[tuple[str, ...]], kind: str, n: str, rest: str | None, names: Iterable[str]) -> str | None:
    targets = {"/".join(path) for path in paths}
    best: tuple[int, bool, str] | None = None
    for other in names:
        match = _VALIDATION.match(other)
        if match is None or match["path"] not in targets or match["kind"] != kind or match["rest"] != rest:
            continue
        if match["n"] == "*" or n not in ("*", match["n"]):
            continue
        candidate = (int(match["n"]), other.startswith("val-core"), other)
        if best is None or candidate > best:
            best = candidate
    return best[2] if best else None
