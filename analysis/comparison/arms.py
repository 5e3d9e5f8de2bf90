"""Runs that differ only in their seed are one arm: its name, its colour, its seeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.comparison import labels, palette
from analysis.comparison.configs import ABSENT, OF_THE_BASELINE, decides, flat, text, varying
from analysis.comparison.labels import SHORT
from analysis.run import Run, lookup
from harness.errors import HarnessError, nearest

BASELINE = "mean"
"""The arm to compare with where nobody names another; where there is none, the first arm."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)")
Against = str | Mapping[str, Any]
"""Which arm to compare with: a baseline's name, an arm's label or words of it, or config keys with their values."""


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """Runs of one setting. Order and colour are those of the whole study."""

    key: str
    """Stable text of the setting, unique within a study."""
    label: str
    """For people: baseline, K, model with its size, and whatever else tells the arms apart."""
    color: str
    dash: str
    runs: tuple[Run, ...]
    name: str = ""
    """The baseline with K and mask alone; "" where the runs do not say."""
    setting: str = ""
    """What else tells it from the other arms, such as `recipe=gspo`; "" where the name is enough."""

    @property
    def seeds(self) -> int:
        """How many different training seeds; runs of unknown seed count one each."""
        seeds = [run.seed for run in self.runs]
        return len({str(seed) for seed in seeds if seed is not None}) + seeds.count(None)

    @property
    def legend(self) -> str:
        """The label with the number of seeds."""
        count = f"{self.seeds} seed{'s' * (self.seeds != 1)}"
        return f"{self.label} · {count}" if len(self.runs) == self.seeds else f"{self.label} · {len(self.runs)} runs"

    @property
    def short(self) -> str:
        """The label without what all arms share, for places where there is little room."""
        return " · ".join(part for part in (self.name, self.setting) if part) or self.label

    def is_baseline(self, name: str) -> bool:
        """Whether `name` means this arm: its label, the baseline's name, or the start of its label."""
        return name in (self.key, self.label, self.runs[0].get("baseline.name", None), self.runs[0].label)


def group(runs: Iterable[Run], by: str | Sequence[str] | None = None) -> tuple[Arm, ...]:
    """Arms of the runs, in a stable order: the mean baseline first, then by baseline, K and label.

    Args:
        by: config keys, or the short names K, baseline, mask, model, recipe, G, data; None groups by all that
            decides a run's science but its seed.

    Raises:
        HarnessError: no runs, or a key that none of them has.
    """
    selected = list(runs)
    if not selected:
        raise HarnessError("no runs to group into arms: the sweep is empty or the filter matches none")
    keys = _varying(selected) if by is None else _keys(selected, [by] if isinstance(by, str) else list(by))
    members: dict[tuple[str, ...], list[Run]] = {}
    for run in selected:
        setting = tuple(text(lookup(run.config, key, ABSENT)) for key in keys)
        # A log without a config has at most the seed that its name tells: there the name is the setting.
        members.setdefault(setting if set(run.config) - {"seed"} else (*setting, run.label), []).append(run)
    found_names = labels.names([(setting, found[0]) for setting, found in members.items()], keys, by is not None)
    named = zip(members.items(), found_names, strict=True)
    ranked = sorted(named, key=lambda pair: _order(pair[0][1][0], pair[1][2], pair[0][0]))
    ordered, names = [item for item, _ in ranked], [name for _, name in ranked]
    styles = palette.assign([_identity(found[0], setting, by is not None) for setting, found in ordered])
    return tuple(
        Arm(
            " ".join((*(f"{k}={v}" for k, v in zip(keys, setting, strict=False)), *setting[len(keys) :])),
            label,
            color,
            dash,
            tuple(sorted(found, key=lambda run: (str("" if run.seed is None else run.seed).zfill(9), run.id))),
            name,
            place,
        )
        for (setting, found), (label, name, place), (color, dash) in zip(ordered, names, styles, strict=True)
    )


def pick(arms: Sequence[Arm], name: Against) -> Arm | None:
    """The first arm that `name` means, see `meant`."""
    found = meant(arms, name)
    return found[0] if found else None


def meant(arms: Sequence[Arm], name: Against) -> list[Arm]:
    """The arms that `name` means: one by its label, all of a baseline, the only one whose label has all its words, or
    those with its config values."""
    if not isinstance(name, str):
        return [
            arm
            for arm in arms
            if all(text(lookup(arm.runs[0].config, key, ABSENT)) == text(value) for key, value in name.items())
        ]
    exact = [arm for arm in arms if arm.is_baseline(name)]
    if exact:
        return exact
    close = [arm for arm in arms if all(word in arm.label.lower() for word in name.lower().split())]
    return close if len(close) == 1 else []


def counterpart(arm: Arm, others: Sequence[Arm]) -> Arm:
    """Of several arms the one that differs from `arm` in its baseline alone; where none does, that which differs least.

    QAE on top of Clip-Cov is held against Clip-Cov, not against the first mean baseline of the sweep.
    """
    mine = flat(arm.runs[0].config)

    def differences(other: Arm) -> int:
        theirs = flat(other.runs[0].config)
        keys = {key for key in mine.keys() | theirs.keys() if decides(key) and not OF_THE_BASELINE.search(key)}
        return sum(text(mine.get(key, ABSENT)) != text(theirs.get(key, ABSENT)) for key in keys)

    return min(others, key=differences)


def require(arms: Sequence[Arm], name: Against) -> Arm:
    """As `pick`. Raises: HarnessError where `name` means no arm, with the nearest."""
    found = pick(arms, name)
    if found is None:
        if not isinstance(name, str):
            raise HarnessError(f"against {dict(name)}: no arm has these settings; name an arm by its label")
        words = name.lower().split()
        several = [arm.label for arm in arms if all(word in arm.label.lower() for word in words)]
        names = {str(arm.runs[0].get("baseline.name", None)) for arm in arms} - {"None"}
        known = names | {arm.short for arm in arms} | {arm.label for arm in arms}
        hint = f"it may be {' or '.join(several)}" if several else nearest(name, known)
        raise HarnessError(f"against {name!r}: no such arm; {hint}")
    return found


def one_a_seed(runs: Sequence[Run], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """(seeds, ...) from (runs, ...): runs of one seed are one draw, their mean; taken for several they would make
    intervals too short. A run of unknown seed counts for itself; NaN is left out where another run has a value.
    """
    places: dict[object, list[int]] = {}
    for i, run in enumerate(runs):
        seed = run.seed
        places.setdefault(("run", run.id) if seed is None else ("seed", seed), []).append(i)
    if len(places) == len(rows):
        return rows
    merged = []
    for found in places.values():
        group = rows[found]
        known = ~np.isnan(group)
        total = np.where(known, group, 0.0).sum(axis=0)
        count = known.sum(axis=0)
        merged.append(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))
    return np.array(merged)


def _varying(runs: Sequence[Run]) -> list[str]:
    return [key for key in varying(runs) if decides(key)]


def _keys(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    keys = [SHORT.get(name, name) for name in names]
    for name, key in zip(names, keys, strict=True):
        if all(lookup(run.config, key, ABSENT) == ABSENT for run in runs):
            known = {leaf for run in runs for leaf in flat(run.config)} | set(SHORT)
            raise HarnessError(f"by={name!r}: none of {len(runs)} runs has this config key; {nearest(name, known)}")
    return keys


def _identity(run: Run, setting: tuple[str, ...], chosen: bool) -> palette.Identity:
    name = run.get("baseline.name", None)
    if name is None:
        return (" ".join(setting) or run.label, None, None)
    K = run.K
    mask = run.get("baseline.mask", None)
    return (str(name), None if K is None else text(K), None if K is None else str(mask or "both"))


def _order(run: Run, said: str, setting: tuple[str, ...]) -> tuple[Any, ...]:
    K = run.K
    mask = str(run.get("baseline.mask", None) or "both")
    name = str(run.get("baseline.name", None) or "~")
    return (
        str(run.get("model.name", "")),
        name != "mean",
        name,
        -1.0 if K is None else K,
        mask,
        _numbered(said),
        tuple(map(_numbered, setting)),
    )


def _numbered(text: str) -> list[tuple[int, float, str]]:
    """For sorting: group_size=4 before group_size=16."""
    return [(0, float(part), "") if _NUMBER.fullmatch(part) else (1, 0.0, part) for part in _NUMBER.split(text)]
