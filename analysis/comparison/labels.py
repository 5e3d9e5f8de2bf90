"""What an arm is called: its baseline, its model, and what else tells it from the others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analysis.comparison.configs import ABSENT, OF_THE_BASELINE, text
from analysis.run import Run

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
_BASELINES = {"mean": "mean (GRPO)", "qae": "QAE", "rloo": "RLOO", "mean_no_std": "mean, no std"}
_MASKS = {"positive": "POS-MASK", "negative": "NEG-MASK"}
_SAID = {
    "baseline.name", "baseline.K", "baseline.mask", "baseline.interpolation",
    "model.name", "model.parameters", "model.builtin",
}  # fmt: skip
_VAGUE = {"enable", "name", "len", "type", "mode"}


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
        parts += [f"K={text(K)}"]
    return " ".join(parts)


def names(arms: Sequence[tuple[tuple[str, ...], Run]], keys: Sequence[str], chosen: bool) -> list[tuple[str, str, str]]:
    """(label, name, setting) of every arm."""
    if chosen:
        return [(_by_label(keys, setting, run), "", "") for setting, run in arms]
    baselines = [baseline_name(run) or "" for _, run in arms]
    models = [model_name(run) or "" for _, run in arms]
    several = len(set(models)) > 1
    extras = _telling([f"{name} {model}" for name, model in zip(baselines, models, strict=True)], arms, keys)
    found = []
    for (setting, run), name, model, extra in zip(arms, baselines, models, extras, strict=True):
        more = [*extra, *setting[len(keys) :]]
        label = " · ".join(part for part in (name, model, *more) if part) or run.label
        found.append((label, name, " · ".join([model] * (several and bool(model)) + more)))
    return found


def _telling(names: Sequence[str], arms: Sequence[tuple[tuple[str, ...], Run]], keys: Sequence[str]) -> list[list[str]]:
    """For every arm the settings that tell it from arms of the same name, as few as possible.

    The harness's own settings come first, because verl's repeat them. One of them, once needed, is said of every arm;
    verl's are said only of arms that would have one name without them.
    """
    said: list[tuple[str, ...]] = [(name,) for name in names]
    parts: list[list[str]] = [[] for _ in names]
    left = [i for i, key in enumerate(keys) if key not in _SAID]
    for own in (True, False):
        columns = [i for i in left if keys[i].startswith("verl.") is not own]
        while len(set(said)) < len(said) and columns:
            best = max(columns, key=lambda i: (len({(*s, arm[0][i]) for s, arm in zip(said, arms, strict=True)}),
                                               keys[i] == "recipe.name", not OF_THE_BASELINE.search(keys[i]),
                                               -len(keys[i])))  # fmt: skip
            if len({(*s, arm[0][best]) for s, arm in zip(said, arms, strict=True)}) == len(set(said)):
                break  # none of these tells anything more apart
            columns.remove(best)
            alike = [said.count(name) > 1 for name in said]
            for j, (setting, _) in enumerate(arms):
                if own or alike[j]:
                    parts[j].append(f"{_short_key(keys[best])}={setting[best]}")
                    said[j] = (*said[j], setting[best])
    return parts


def _short_key(key: str) -> str:
    """`recipe.clip_high` is clip_high, `recipe.name` is recipe, `...overlong_buffer_cfg.enable` keeps its parent."""
    *parents, last = key.split(".")
    if last == "name" and parents:
        return parents[-1]
    return f"{parents[-1]}.{last}" if last in _VAGUE and parents else last


def _by_label(keys: Sequence[str], setting: tuple[str, ...], run: Run) -> str:
    short = {full: name for name, full in SHORT.items()}
    parts = []
    for key, value in zip(keys, setting, strict=False):
        if key == "baseline.name":
            parts.append(_BASELINES.get(value, value))
        elif key == "baseline.K" and value in ("None", ABSENT):
            parts.append(baseline_name(run) or "no K")
        else:
            parts.append(f"{short.get(key, key.rsplit('.', 1)[-1])}={value}")
    return " · ".join([*parts, *setting[len(keys) :]])
