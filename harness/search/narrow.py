"""Ranks that a finished mean-baseline run already speaks against, by replaying its rewards."""

from __future__ import annotations

from harness import quantile
from harness.errors import HarnessError
from harness.search import space
from harness.search.study import Study
from harness.store.runs import Store


def ranks(study: Study, store: Store) -> list[int]:
    """The ranks of the study that stay: those under which enough responses would have had an advantage.

    A heuristic: the policy would have gone elsewhere, see `analysis.counterfactual.replay.LIMITS`. The paper's ranks
    always stay.
    Raises: HarnessError where the run is unknown or has no outcomes, or the study has no axis of ranks.
    """
    from analysis.counterfactual import replay

    asked = study.rules.narrow
    axis = next((axis for axis in study.space.axes if axis.key == space.RANK), None)
    if asked is None or axis is None:
        raise HarnessError(f"{study.file.name}: narrow needs an axis of ranks: space: {{rank: all}}")
    groups = replay.read(store.folder(store.find(asked.run)))
    G = study.space.group_size
    if groups.group_size != G:
        raise HarnessError(
            f"{study.file.name}: narrow.run={asked.run}: its groups have {groups.group_size} responses, the study's {G}"
        )
    values = [int(value) for value in axis.values() or ()]
    papers = {quantile.rank(K, G) for K in (0.4, 0.6)}
    kept = [
        r for r in values
        if r in papers or float(replay.replay(groups, quantile.short_level(r, G)).zero.mean()) <= asked.most_zero
    ]  # fmt: skip
    if not kept:
        raise HarnessError(f"{study.file.name}: narrow.most_zero={asked.most_zero:g} leaves no rank: raise it")
    return kept
