"""What `plan` and `ksearch` print about a study."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from harness.search import ranking
from harness.search.actions import Action, Add, Again, Ask, Cancel, Fail, Finalists, Over, Prune, Start, Tell, Winner
from harness.search.space import RANK, Axis
from harness.search.state import View
from harness.search.study import Study


def plan(study: Study, run_hours: float, view: View | None, ranks: Sequence[int] | None = None) -> str:
    """What the study searches, by which rules, and what it may cost; where it stands if it has begun.

    Args:
        ranks: those that a replay leaves; None where none was asked for.
    """
    rules, cells = study.rules, study.space.cells()
    left_out = 0
    if cells is not None and ranks is not None:
        kept = [cell for cell in cells if cell.get(RANK) in ranks]
        cells, left_out = kept, len(cells) - len(kept)
    lines = [f"study {study.name}: " + (f"{len(cells)} cells" if cells is not None else "a continuous space")]
    if study.question:
        lines += textwrap.wrap(study.question, 100, initial_indent="  ", subsequent_indent="  ")
    lines.append("")
    if cells is not None and len(cells) <= 32:
        lines += [f"  {study.space.name(cell)}" for cell in cells]
    else:
        lines += [f"  {_axis(axis)}" for axis in study.space.axes]
    if left_out and rules.narrow is not None:
        lines.append(f"  (the replay of run {rules.narrow.run} speaks against {left_out} others)")
    budget, confirm = rules.budget, rules.confirm
    searched = budget.runs - study.reserve()
    lines += [
        "",
        f"sampler: {study.sampler(left_out)}, {rules.in_flight} in flight; the paper's rule first",
        f"at most {budget.runs} runs: {searched} to search, {study.reserve()} to confirm"
        f" ({confirm.trials} finalists, compared with {', '.join(confirm.compare) or 'nothing'}, {confirm.seeds} fresh"
        " seeds each" + (", and the held-out benchmarks for the winner)" if rules.held_out else ")"),
    ]
    if run_hours:
        worst = budget.runs * run_hours
        capped = f", capped at {budget.gpu_hours:,.0f}" if budget.gpu_hours is not None else ""
        lines.append(
            f"about {run_hours:,.0f} GPU-hours a run, {worst:,.0f} for all{capped} "
            "(estimate; see harness/planning/gpu_hours.py)"
        )
        if budget.gpu_hours is not None and (study.reserve() + 1) * run_hours > budget.gpu_hours:
            lines.append(f"the cap does not even cover confirmation: raise it above {study.reserve() * run_hours:,.0f}")
    elif budget.gpu_hours is not None:
        lines.append(f"capped at {budget.gpu_hours:g} hours of this machine (the runs take no GPU)")
    if view is not None:
        lines += ["", result(study, view)]
    return "\n".join(lines)


def _axis(axis: Axis) -> str:
    if axis.kind == "categorical":
        return f"{axis.key}: one of {', '.join(map(str, axis.choices))}"
    step = "" if axis.step is None else f" in steps of {axis.step:g}"
    return f"{axis.key}: {axis.kind} from {axis.low:g} to {axis.high:g}{step}" + (", logarithmic" if axis.log else "")


def standing(study: Study, view: View) -> str:
    """One line: how far the study is."""
    count = {s: sum(t.status == s for t in view.trials) for s in ("open", "complete", "pruned", "failed")}
    stage = view.over or ("searching" if view.finalists is None else "confirming" if view.winner is None else "winner")
    told = ", ".join(f"{n} {status}" for status, n in count.items() if n)
    return f"{stage}: trials {told or 'none'}; {view.started} runs, {view.spent:.3g} GPU-hours (or machine-hours)"


def action(study: Study, view: View, done: Action) -> str | None:
    """One line about what a tick did, None for what needs none."""
    named = {t.number: f"trial {t.number} ({study.space.name(t.cell)})" for t in view.trials}
    if isinstance(done, Ask):
        return None  # no cell was left
    if isinstance(done, Again):
        return f"{named[done.trial]}: tried again as a new trial"
    if isinstance(done, Add):
        who = named.get(done.to, f"trial {done.to}") if isinstance(done.to, int) else done.to
        return f"{who}: seed {done.seed}"
    if isinstance(done, Start):
        return f"run {done.run} is started" + ("" if _new(view, done.run) else " again")
    if isinstance(done, Tell):
        values = ", ".join(f"{100 * value:.2f}" for value in done.values)
        broken = [key for key, value in done.constraints.items() if value > 0]
        return f"{named[done.trial]}: {values} %" + (f", outside {', '.join(broken)}" if broken else "")
    if isinstance(done, Prune):
        return f"{named[done.trial]} pruned: {done.reason}"
    if isinstance(done, Fail):
        return f"{named[done.trial]} failed: {done.reason}"
    if isinstance(done, Cancel):
        return f"run {done.run} cancelled: {done.reason}"
    if isinstance(done, Finalists):
        return f"finalists: {'; '.join(named[n] for n in done.trials)} ({done.reason})"
    if isinstance(done, Winner):
        return f"winner: {named[done.trial]}"
    return f"over: {done.reason}" if isinstance(done, Over) else None


def _new(view: View, run: str) -> bool:
    return all(r.look.step == 0 and not r.look.failures for r in view.everything() if r.run == run)


def result(study: Study, view: View) -> str:
    """The winner with its fresh seeds and the search's own view of the trials."""
    lines = [standing(study, view), ""]
    rules = study.rules
    for t in sorted(view.trials, key=lambda t: -_or_low(ranking.mean(t, rules))):
        found = ranking.good(t.runs, rules)
        value = " and ".join(f"{100 * v:6.2f} %" for v in ranking.values(t, rules)) if found else "     - "
        note = t.reason or (f"{len(found)} seed" + "s" * (len(found) != 1))
        mark = "*" if t.number == view.winner else " "
        lines.append(f" {mark} trial {t.number:<3} {study.space.name(t.cell):<44} {value}  {t.status:<9} {note}")
    fresh = {
        name: ranking.good([r for r in group if r.seed >= rules.confirm.first], rules)
        for name, group in view.groups.items()
    }
    if view.winner is not None and (mine := fresh.get(f"trial {view.winner}")):
        trial = next(t for t in view.trials if t.number == view.winner)
        lines += ["", f"winner: {study.space.name(trial.cell)}", f"  on {_seeds(mine, 'fresh ')}: {_percent(mine)}"]
        lines += _against(fresh, mine)
        if len(mine) < 3:
            lines.append("  below 3 fresh seeds no claim about the method is possible")
    elif view.winner is not None:
        lines += ["", f"winner: trial {view.winner}, by its search seeds alone: no fresh seed has a value"]
    return "\n".join(lines)


def _against(fresh: Mapping[str, list[float]], mine: list[float]) -> list[str]:
    lines = []
    for name, label in (("mean", "the mean baseline"), ("paper", "K = 0.4")):
        if found := fresh.get(name):
            gap = sum(mine) / len(mine) - sum(found) / len(found)
            lines.append(f"  {100 * gap:+.2f} points against {label} ({_percent(found)}, {_seeds(found)})")
    return lines


def _percent(values: list[float]) -> str:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{100 * mean:.2f} %"
    sd = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return f"{100 * mean:.2f} % (sd over seeds {100 * sd:.2f})"


def _seeds(values: list[float], kind: str = "") -> str:
    return f"{len(values)} {kind}seed" + "s" * (len(values) != 1)


def _or_low(value: float) -> float:
    return value if math.isfinite(value) else -math.inf
