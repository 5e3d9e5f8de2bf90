"""What a reader must know before trusting the page: missing seeds, damaged files, unequal steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.comparison.ablation import Study
from analysis.comparison.arms import Arm
from analysis.comparison.results import Results
from analysis.statistics.components import MIN_SEEDS
from analysis.statistics.entropy import Health

_SHOWN = 6


def cautions(
    study: Study, results: Results | None, missing: Sequence[str] = (), health: Mapping[str, Health] | None = None
) -> list[str]:
    """Plain-text warnings, most important first; empty if there is nothing to warn of."""
    found = [*_few_seeds(study), *_missing_runs(missing), *_missing_seeds(study), *_unfinished(study)]
    found += _repeated_seeds(study)
    found += [*_unequal_steps(study), *_scorers(study)]
    if results is not None:
        found += results.notes
    found += _notes(study)
    found += _no_numbers(study, health or {})
    return list(dict.fromkeys(found))


def _few_seeds(study: Study) -> list[str]:
    few = [arm for arm in study.arms if arm.seeds < MIN_SEEDS]
    if not few:
        return []
    counts = {arm.seeds for arm in few}
    every = f"every arm has {min(counts)}" if len(few) == len(study.arms) > 1 and len(counts) == 1 else ""
    who = every or _short([f"{arm.label} has {arm.seeds}" for arm in few])
    return [f"below {MIN_SEEDS} seeds no claim about a method is possible: {who}"]


def _missing_runs(missing: Sequence[str]) -> list[str]:
    return [f"{len(missing)} planned runs have no folder yet: {_short(missing)}"] if missing else []


def _missing_seeds(study: Study) -> list[str]:
    known = {arm.key: _seeds(arm) for arm in study.arms}
    every = sorted(set().union(*known.values()))
    lines = []
    for arm in study.arms:
        absent = [str(seed) for seed in every if seed not in known[arm.key]]
        if absent and known[arm.key]:
            lines.append(f"{arm.label} lacks seed {', '.join(absent)}, which other arms have")
    return lines


def _repeated_seeds(study: Study) -> list[str]:
    lines = []
    for arm in study.arms:
        seeds = [run.seed for run in arm.runs]
        often = [seed for seed in dict.fromkeys(seeds) if seed is not None and seeds.count(seed) > 1]
        if often:
            which = ", ".join(f"{seeds.count(seed)} of seed {seed}" for seed in often[:_SHOWN])
            lines.append(f"{arm.label} has several runs of one seed ({which}): they count as one, their mean")
    return lines


def _unfinished(study: Study) -> list[str]:
    return [
        f"{run.label} ({run.id}) is {run.state} at step {run.last_step if run.last_step is not None else 'none'}"
        for run in study.runs
        if run.state in ("failed", "crashed", "running")
    ]


def _unequal_steps(study: Study) -> list[str]:
    lasts = {run.id: run.last_step for run in study.runs if run.last_step is not None}
    if len(set(lasts.values())) <= 1:
        return []
    longest = max(lasts.values())
    short = [f"{run.label} {lasts[run.id]}" for run in study.runs if lasts.get(run.id, longest) < longest]
    return [f"unequal steps: the longest run has {longest}, {_short(short)}"]


def _scorers(study: Study) -> list[str]:
    names = {name for tally in study.tallies.values() for name in tally.scorers}
    return [f"runs were scored by different scorers: {', '.join(sorted(names))}"] if len(names) > 1 else []


def _notes(study: Study) -> list[str]:
    """What reading the runs found; one line for a note that many runs share."""
    owners: dict[str, list[str]] = {}
    for run in study.runs:
        for note in (*run.notes, *study.tallies[run.id].notes):
            owners.setdefault(note, []).append(f"{run.label} ({run.id})")
    return list(study.notes) + [
        f"{names[0]}: {note}" if len(names) == 1 else f"{len(names)} runs ({_short(names)}): {note}"
        for note, names in owners.items()
    ]


def _no_numbers(study: Study, health: Mapping[str, Health]) -> list[str]:
    return [
        f"{run.label} ({run.id}): entropy {health[run.id].text}"
        for run in study.runs
        if run.id in health and health[run.id].verdict == "not a number"
    ]


def _seeds(arm: Arm) -> set[int]:
    return {seed for run in arm.runs if isinstance(seed := run.seed, int)}


def _short(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return "; ".join(parts[:_SHOWN]) + more
