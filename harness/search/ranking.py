"""How trials are judged: means over seeds, doubt, constraints, pruning. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.search.state import Measure, Scores, SeedRun, Trial
from harness.search.study import Rules

_PRIOR = 4.0
"""Degrees of freedom that the study file's `seeds.sd` counts for."""
_FEWEST = 6
"""Problems that differ, below which the signed-rank test can reach no small level."""


def good(runs: Sequence[SeedRun], rules: Rules) -> list[float]:
    """Values of the finished runs, those that are a number."""
    found = [r.look.measure.value(rules.objective.last) for r in runs if r.look.state == "done"]
    return [value for value in found if math.isfinite(value)]


def mean(trial: Trial, rules: Rules) -> float:
    """A trial's value: the mean over its seeds; NaN without any."""
    found = good(trial.runs, rules)
    return sum(found) / len(found) if found else math.nan


def seed_sd(trials: Sequence[Trial], rules: Rules) -> float:
    """Standard deviation over seeds, pooled over the trials and shrunk to the study file's expectation."""
    squares, freedom = _PRIOR * rules.seeds.sd**2, _PRIOR
    for trial in trials:
        found = good(trial.runs, rules)
        if len(found) > 1:
            centre = sum(found) / len(found)
            squares += sum((x - centre) ** 2 for x in found)
            freedom += len(found) - 1
    return math.sqrt(squares / freedom)


def best(trials: Sequence[Trial], rules: Rules, baseline: Sequence[SeedRun] | None = None) -> Trial | None:
    """The trial of the highest mean so far among those that keep to the constraints, None without any.

    Args:
        baseline: see `violations`.
    """
    scored = [t for t in trials if t.status != "failed" and good(t.runs, rules)]
    inside = [t for t in scored if not any(v > 0 for v in violations(t, rules, baseline).values())]
    return max(inside, key=lambda t: (mean(t, rules), -t.number), default=None)


def poor(trial: Trial, leader: Trial | None, sd: float, rules: Rules) -> bool:
    """Whether its mean lies so far below the leader's that more seeds are not worth their hours."""
    if leader is None or leader.number == trial.number:
        return False
    mine, theirs = len(good(trial.runs, rules)), len(good(leader.runs, rules))
    error = sd * math.sqrt(1 / mine + 1 / theirs)
    return mean(trial, rules) < mean(leader, rules) - rules.seeds.doubt * error


def violations(trial: Trial, rules: Rules, baseline: Sequence[SeedRun] | None) -> dict[str, float]:
    """By how much each constraint is broken; 0 or less is kept. Those that cannot be told are absent.

    Args:
        baseline: runs of the mean baseline; None leaves its constraint out.
    """
    limits = rules.constraints
    done = [r.look.measure for r in trial.runs if r.look.state == "done"]
    found: dict[str, float] = {}
    entropies = [m.entropy for m in done if math.isfinite(m.entropy)]
    if entropies:
        level = sum(entropies) / len(entropies)
        if limits.entropy_low is not None:
            found["entropy_low"] = limits.entropy_low - level
        if limits.entropy_high is not None:
            found["entropy_high"] = level - limits.entropy_high
    if any(r.look.measure.health for r in trial.runs) and rules.pruning.health:
        found["health"] = 1.0
    if limits.pass_k_drop is not None and baseline is not None:
        mine, theirs = (
            _second(done, rules),
            _second([r.look.measure for r in baseline if r.look.state == "done"], rules),
        )
        if math.isfinite(mine) and math.isfinite(theirs):
            found["pass_k"] = theirs - limits.pass_k_drop - mine
    return found


def _second(measures: Sequence[Measure], rules: Rules) -> float:
    found = [m.second(rules.objective.last) for m in measures]
    found = [value for value in found if math.isfinite(value)]
    return sum(found) / len(found) if found else math.nan


def values(trial: Trial, rules: Rules) -> tuple[float, ...]:
    """What the trial is told as: its mean, and pass@k where the search has two objectives."""
    first = mean(trial, rules)
    if not rules.objective.multi:
        return (first,)
    return first, _second([r.look.measure for r in trial.runs if r.look.state == "done"], rules)


def prune(trial: Trial, leader: Trial | None, sd: float, rules: Rules) -> str:
    """Why the trial's first run is to be cancelled; empty to let it train. Args: sd: see `seed_sd`."""
    run = trial.runs[0]
    if rules.pruning.health and run.look.measure.health:
        return run.look.measure.health
    if not rules.pruning.wilcoxon or leader is None or leader.number == trial.number or len(trial.runs) > 1:
        return ""
    if rules.objective.multi:
        return ""  # a run behind in pass@1 may lie on the front
    if run.look.step >= run.look.total:
        return ""  # nothing is left to save
    return _behind(run, leader, sd, rules)


def _behind(run: SeedRun, leader: Trial, sd: float, rules: Rules) -> str:
    """Wilcoxon's signed-rank test by problem, at the latest common evaluations of both.

    The test knows no noise over seeds, so the deficit must be more than seeds make, too.
    """
    others = [r.look.measure.scores for r in leader.runs if r.look.state == "done"]
    mine = run.look.measure.scores
    due = rules.pruning.after * run.look.total
    common = sorted(step for step in mine if step >= max(due, 1) and all(step in scores for scores in others))
    steps = common[-rules.objective.last :]
    if not steps or not others:
        return ""
    problems = sorted(set.intersection(*(set(scores[s]) for s in steps for scores in (mine, *others))))
    if not problems:
        return ""
    ours = [_mean([mine[s] for s in steps], p) for p in problems]
    theirs = [_mean([scores[s] for scores in others for s in steps], p) for p in problems]
    gaps = [round(a - b, 12) for a, b in zip(ours, theirs, strict=True)]
    deficit = -sum(gaps) / len(gaps)
    seeds = rules.seeds.doubt * sd * math.sqrt(1 + 1 / len(others))
    if deficit <= max(rules.pruning.deficit, seeds) or sum(gap != 0 for gap in gaps) < _FEWEST:
        return ""
    from scipy.stats import wilcoxon

    p = float(wilcoxon(gaps, alternative="less").pvalue)
    if not p < rules.pruning.alpha:
        return ""
    return (
        f"{100 * deficit:.1f} points behind trial {leader.number} at step {steps[-1]} on {len(problems)} problems"
        f" (Wilcoxon p = {p:.2g})"
    )


def _mean(scores: Sequence[Scores], problem: str) -> float:
    return sum(s[problem] for s in scores) / len(scores)
