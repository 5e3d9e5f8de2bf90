"""Runs that differ only in their seed are one arm: its name, its colour, its seeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import palette
from analysis.run import Run, lookup
from harness.errors import HarnessError, nearest

SHORT = {
    "K": "baseline.K",
    "baseline": "baseline.name",
    "mask": "baseline.mask",
    "model": "model.name",
    "recipe": "recipe.name",
    "G": "recipe.group_size",
    "data": "data.name",
}
"""Short names for `by`."""

# What never makes another arm: where and under which name a run ran, and its seeds.
_INCIDENTAL = re.compile(
    r"^(cluster|tracking|id|label|seed|budget|provenance|words|token_steps|save_every|keep_checkpoints)(\.|$)"
    r"|^platform$|^verl\.(trainer|harness|ray_kwargs|transfer_queue)(\.|$)"
    r"|(^|[._])(seed|path|dir|file|files|name_or_path|port|run_id|attempt|project_name|experiment_name)s?$"
    r"|micro_batch|num_workers|offload|parallel_size|max_token_len|gpu_memory|timeout|checkpoint|profiler"
    r"|resources"
)
_BASELINES = {"mean": "mean (GRPO)", "qae": "QAE", "rloo": "RLOO", "mean_no_std": "mean, no std"}
_MASKS = {"positive": "POS-MASK", "negative": "NEG-MASK"}
_ABSENT = "not set"


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

    @property
    def seeds(self) -> int:
        """How many different training seeds; runs of unknown seed count one each."""
        seeds = [run.get("seed", None) for run in self.runs]
        return len({str(seed) for seed in seeds if seed is not None}) + seeds.count(None)

    @property
    def legend(self) -> str:
        """The label with the number of seeds."""
        count = f"{self.seeds} seed{'s' * (self.seeds != 1)}"
        return f"{self.label} · {count}" if len(self.runs) == self.seeds else f"{self.label} · {len(self.runs)} runs"

    @property
    def short(self) -> str:
        """The label without the model, for places where there is little room."""
        return self.label.split(" · ")[0]

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
        setting = tuple(_text(lookup(run.config, key, _ABSENT)) for key in keys)
        members.setdefault(setting if run.config else (*setting, run.label), []).append(run)
    ordered = sorted(members.items(), key=lambda item: _order(item[1][0], item[0]))
    names = _labels([(setting, found[0]) for setting, found in ordered], keys, by is not None)
    styles = palette.assign([_identity(found[0], setting, by is not None) for setting, found in ordered])
    return tuple(
        Arm(
            " ".join((*(f"{k}={v}" for k, v in zip(keys, setting, strict=False)), *setting[len(keys) :])),
            name,
            color,
            dash,
            tuple(sorted(found, key=lambda run: (str(run.get("seed", "")).zfill(9), run.id))),
        )
        for (setting, found), name, (color, dash) in zip(ordered, names, styles, strict=True)
    )


def pick(arms: Sequence[Arm], name: str) -> Arm | None:
    """The arm that `name` means: its label, the baseline's name, or the only label that contains it."""
    exact = [arm for arm in arms if arm.is_baseline(name)]
    if exact:
        return exact[0]
    close = [arm for arm in arms if name.lower() in arm.label.lower()]
    return close[0] if len(close) == 1 else None


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> leaf of a nested config; lists are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            leaves |= flat(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def varying(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Every config key on which the runs differ -> its value in each run, as text, seeds and paths included."""
    leaves = [flat(run.config) for run in runs]
    keys = sorted({key for config in leaves for key in config})
    table = {key: [_text(config.get(key, _ABSENT)) for config in leaves] for key in keys}
    return {key: values for key, values in table.items() if len(set(values)) > 1}


def decides(key: str) -> bool:
    """Whether a config key makes another arm: not a seed, a path, a name of the run, or where it ran."""
    return not _INCIDENTAL.search(key)


def model_name(run: Run) -> str | None:
    """The model with its size, `tiny (0.3M)`; the size is left out where the name already says it."""
    name, size = run.get("model.name", None), run.get("model.parameters", None)
    if name is None:
        return None
    if not isinstance(size, (int, float)) or re.search(r"\d[BbMm]\b", str(name)):
        return str(name)
    return f"{name} ({size / 1e9:.3g}B)" if size >= 1e9 else f"{name} ({size / 1e6:.2g}M)"


def baseline_name(run: Run) -> str | None:
    """The baseline with K and mask, `QAE K=0.4`."""
    name = run.get("baseline.name", None)
    if name is None:
        return None
    K, mask = run.K, str(run.get("baseline.mask", None))
    parts = [_BASELINES.get(str(name), str(name))]
    if K is not None:
        parts += [_MASKS[mask]] if mask in _MASKS else []
        parts += ["linear"] if run.get("baseline.interpolation", None) == "linear" else []
        parts += [f"K={_text(K)}"]
    return " ".join(parts)


def _varying(runs: Sequence[Run]) -> list[str]:
    return [key for key in varying(runs) if decides(key)]


def _keys(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    keys = [SHORT.get(name, name) for name in names]
    for name, key in zip(names, keys, strict=True):
        if all(lookup(run.config, key, _ABSENT) == _ABSENT for run in runs):
            known = {leaf for run in runs for leaf in flat(run.config)} | set(SHORT)
            raise HarnessError(f"by={name!r}: none of {len(runs)} runs has this config key; {nearest(name, known)}")
    return keys


def _labels(arms: Sequence[tuple[tuple[str, ...], Run]], keys: Sequence[str], chosen: bool) -> list[str]:
    if chosen:
        return [_by_label(keys, setting, run) for setting, run in arms]
    labels = [
        " · ".join(part for part in (baseline_name(run), model_name(run)) if part) or run.label for _, run in arms
    ]
    if len(set(labels)) == len(labels):
        return labels
    said = {
        "baseline.name",
        "baseline.K",
        "baseline.mask",
        "baseline.interpolation",
        "model.name",
        "model.parameters",
        "model.builtin",
    }
    extra = [i for i, key in enumerate(keys) if key not in said]
    return [
        " · ".join([label, *(f"{keys[i].rsplit('.', 1)[-1]}={setting[i]}" for i in extra), *setting[len(keys) :]])
        for label, (setting, _) in zip(labels, arms, strict=True)
    ]


def _by_label(keys: Sequence[str], setting: tuple[str, ...], run: Run) -> str:
    short = {full: name for name, full in SHORT.items()}
    parts = []
    for key, value in zip(keys, setting, strict=False):
        if key == "baseline.name":
            parts.append(_BASELINES.get(value, value))
        elif key == "baseline.K" and value in ("None", _ABSENT):
            parts.append(baseline_name(run) or "no K")
        else:
            parts.append(f"{short.get(key, key.rsplit('.', 1)[-1])}={value}")
    return " · ".join([*parts, *setting[len(keys) :]])


def _identity(run: Run, setting: tuple[str, ...], chosen: bool) -> palette.Identity:
    name = run.get("baseline.name", None)
    if name is None:
        return (" ".join(setting) or run.label, None, None)
    K = run.K
    mask = run.get("baseline.mask", None)
    return (str(name), None if K is None else _text(K), None if K is None else str(mask or "both"))


def _order(run: Run, setting: tuple[str, ...]) -> tuple[Any, ...]:
    K = run.K
    mask = str(run.get("baseline.mask", None) or "both")
    name = str(run.get("baseline.name", None) or "~")
    return (
        str(run.get("model.name", "")),
        name != "mean",
        name,
        -1.0 if K is None else K,
        mask,
        setting,
    )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
