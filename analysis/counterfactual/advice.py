"""Published rules of thumb for K, and what they say about one run. Heuristics: none of them was measured here."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from harness import quantile

PAPER = (
    "heuristic of the authors: arXiv 2509.22611 (0.4 by default, 0.6 where the baseline's entropy is low, chosen once"
    " per recipe) and the README of github.com/junkangwu/QAE (start with 0.4; 0.6 if entropy collapses early)"
)
GUIDE = (
    "heuristic of a third party: the page quantile-advantage-entropy-safe-reasoning 0.0.2 of SkillXiv"
    " (github.com/ADu2021/skillXiv). Machine-written from the paper, no measurements given, and its own code takes the"
    " quantile at 1 - K, against the paper"
)
THEORY = "no heuristic: arXiv 2509.22611, definition of the gate p <= 1 - K"
LOW, HIGH = 0.5, 3.0
"""Nats a token below which K is to be raised and above which it is to be lowered."""
SOLVED, EASY = 0.95, 0.8
"""Success rates above which there is little, and less, to gain."""
BY_SUCCESS = ((0.1, "0.2"), (0.2, "0.3"), (0.5, "0.4"))
"""(success rate below which, K) of the same page; 0.5 above."""
SMALL_GROUP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the rules look at."""

    baseline: str
    """Name of the run's baseline; the rules speak of the mean baseline's run."""
    group_size: int
    """The most frequent one."""
    smallest_group: int
    levels: int
    """How many distinct reward values occur."""
    entropy: float | None
    """Nats a token over the last quarter of training, None where it was not recorded."""
    early_entropy: float | None
    """The same over the first tenth."""
    success: float
    """Mean accuracy over training."""
    hard_at: float
    """Share of groups that are hard at K = 0.4."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One heuristic applied to one run."""

    name: str
    source: str
    says: str
    K: str | None = None
    """The level that it suggests, None where it suggests none."""


def rules(facts: Facts) -> list[Rule]:
    """Every rule with what it says here."""
    return [_by_entropy(facts), _band(facts), _by_success(facts), _split(facts)]


def _by_entropy(facts: Facts) -> Rule:
    name = "entropy of the mean baseline"
    if facts.entropy is None:
        return Rule(name, PAPER, "no entropy was recorded: K = 0.4, the default", "0.4")
    low = is_low(facts)
    text = f"{facts.entropy:.3g} nats late in training" + ("" if low else ", not low")
    why = "; the paper gives no number for low: here it is below 0.5 nats or half of the early level"
    return Rule(name, PAPER, f"{text}: K = {'0.6' if low else '0.4'}{why}", "0.6" if low else "0.4")


def is_low(facts: Facts) -> bool:
    """Our reading of the paper's "low": below 0.5 nats, or half of the run's own early level or less."""
    if facts.entropy is None:
        return False
    fallen = facts.early_entropy is not None and facts.entropy <= 0.5 * facts.early_entropy
    return facts.entropy < LOW or fallen


def _band(facts: Facts) -> Rule:
    name = "entropy band"
    if facts.entropy is None:
        return Rule(name, GUIDE, "no entropy was recorded")
    if facts.entropy < LOW:
        return Rule(name, GUIDE, f"{facts.entropy:.3g} nats is below {LOW:g}: raise K")
    if facts.entropy > HIGH:
        return Rule(name, GUIDE, f"{facts.entropy:.3g} nats is above {HIGH:g}: lower K")
    return Rule(name, GUIDE, f"{facts.entropy:.3g} nats lies within {LOW:g} to {HIGH:g}: leave K")


def _by_success(facts: Facts) -> Rule:
    name, rate = "success rate", f"{facts.success:.0%} of the responses are right"
    if facts.success > SOLVED:
        return Rule(name, GUIDE, f"{rate}: above {SOLVED:.0%} there is little to gain from any K")
    K = next((K for below, K in BY_SUCCESS if facts.success < below), "0.5")
    if facts.success >= 0.5:
        less = f"; above {EASY:.0%} there is less to gain" if facts.success > EASY else ""
        return Rule(name, GUIDE, f"{rate}, most succeed: K = {K}{less}", K)
    why = "K between 0.2 (below 10 %) and 0.3 (below 20 %)" if facts.success < 0.2 else f"K = {K} (from 20 to 50 %)"
    return Rule(name, GUIDE, f"{rate}, most fail: {why}", K)


def _split(facts: Facts) -> Rule:
    return Rule(
        "what the gate does at K = 0.4", THEORY,
        f"{facts.hard_at:.0%} of the groups are hard and learn from successes only, {1 - facts.hard_at:.0%} are easy"
        " and learn from failures only",
    )  # fmt: skip


def warnings(facts: Facts) -> list[str]:
    """Where the rules, or the method, are out of the range that the paper looked at."""
    found = []
    if facts.smallest_group < SMALL_GROUP:
        found.append(
            f"groups of {facts.smallest_group}: the paper's recipe has {SMALL_GROUP} responses a query; with fewer a"
            " quantile is coarse and few values of K differ"
        )
    if facts.levels > 2:
        found.append(
            f"rewards take {facts.levels} values: the two regimes are about two-valued rewards; with more, the gate"
            " follows the rank of the reward and the published rules say nothing about it"
        )
    if facts.baseline != "mean":
        found.append(f"this run's baseline is {facts.baseline}: the rules speak of a run with the mean baseline")
    if facts.entropy is not None and facts.entropy < LOW and facts.success > SOLVED:
        found.append("low entropy with nearly all responses right is a solved task, not a collapse")
    return found


def text(label: str, facts: Facts) -> str:
    """The rules with their sources and what they say, the ranks that the suggested K have, and the warnings."""
    lines = [f"advice on {label}: heuristics, each with its source; none was tested on this run, nor by us", ""]
    for rule in rules(facts):
        lines += textwrap.wrap(
            f"{rule.name}: {rule.says}{_rank(rule.K, facts.group_size)}", 110, initial_indent="  ",
            subsequent_indent="    ",
        )  # fmt: skip
        lines += textwrap.wrap(f"source: {rule.source}", 110, initial_indent="      ", subsequent_indent="      ")
    told = warnings(facts)
    if told:
        lines += ["", "out of range:", *(f"  - {line}" for line in told)]
    suggested = sorted({rule.K for rule in rules(facts) if rule.K})
    if len({quantile.rank(K, facts.group_size) for K in suggested}) > 1:
        lines += ["", f"the rules disagree ({', '.join(suggested)}): `harness ksearch` measures instead"]
    return "\n".join(lines)


def _rank(K: str | None, group_size: int) -> str:
    return "" if K is None else f" (rank {quantile.rank(K, group_size)} of {group_size})"
