"""A sweep file: one study as a desired state, expanded to its points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.compose import project_folder
from harness.errors import HarnessError, nearest

STUDIES = "search/"
"""Folder of sweeps/ that holds the studies of `harness ksearch`."""
KEYS = {
    "question": "the question that the study answers",
    "overrides": "Hydra overrides that every point shares, as a list of key=value",
    "grid": "a list of blocks; a block maps keys to a value or a list of values, its points are their product",
    "seeds": "a list of whole numbers",
    "compare": "what the report compares: {against: BASELINE}",
    "budget_gpu_hours": "refuse to start more than so much",
    "feeds": "the figure or table that the study is for",
    "published": "numbers to hold the results against, as a list of mappings",
    "gpu_hours": "what the whole study takes, an estimate",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One grid point of a sweep, one run."""

    overrides: tuple[str, ...]
    """Everything that composes it, in Hydra's syntax, later ones winning."""
    varied: tuple[str, ...]
    """The overrides in which it differs from the sweep's common ones."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A study: what is asked, and the points whose runs answer it."""

    name: str
    question: str
    points: tuple[Point, ...]
    compare: Mapping[str, Any]
    budget_gpu_hours: float | None
    file: Path
    feeds: str = ""
    gpu_hours: float | None = None
    """As the file states it."""
    published: tuple[Mapping[str, Any], ...] = ()


def folder() -> Path:
    """Where sweep files lie."""
    return project_folder() / "sweeps"


def names() -> list[str]:
    """Names of all sweeps, `tiny/main_table` for files in subfolders."""
    files = (p for p in folder().rglob("*.yaml") if p.is_file())
    found = sorted(p.relative_to(folder()).with_suffix("").as_posix() for p in files)
    return [name for name in found if not name.startswith(STUDIES)]


def is_study(name: str) -> bool:
    """Whether `name` is a study of `harness ksearch`; of a sweep and a study of one name the study is `search/NAME`."""
    short = name.removeprefix(STUDIES)
    return (folder() / f"{STUDIES}{short}.yaml").is_file() and (
        short != name or not (folder() / f"{name}.yaml").is_file()
    )


def unapplied(name: str, applied: Sequence[str]) -> str:
    """Why nothing is known of a sweep's runs, with the remedy: it was never applied, or there is no such sweep."""
    there = names()
    if name in there:
        return f"sweep {name!r} was never applied here: start it with `harness sweep {name}`"
    return f"no sweep {name!r}; {nearest(name, {*applied, *there})}"


def load(name: str, extra: Sequence[str] = ()) -> Sweep:
    """Reads and expands sweeps/NAME.yaml (or a path to such a file); `extra` overrides win over those of the file.

    Raises: HarnessError naming the file and key, and the nearest valid one.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder() / f"{name}.yaml"
    if is_study(name):
        raise HarnessError(f"{name} is a study, no sweep: `harness ksearch {name.removeprefix(STUDIES)}`")
    if not path.is_file():
        there = "is no file" if path.exists() else "does not exist"
        raise HarnessError(f"sweep {name!r}: {path} {there}; {nearest(name, names()) or 'there is none'}")
    content = _read(path)
    where = path.name
    for key in content:
        if key not in KEYS:
            raise HarnessError(f"{where}: unknown key {key!r}; {nearest(str(key), KEYS)}")
    common = _overrides(content.get("overrides"), where)
    seeds = _seeds(content.get("seeds", [1]), where)
    blocks = content.get("grid")
    if blocks is None:
        blocks = [{}]
    points = tuple(
        Point((*common, *varied, f"seed={seed}", *extra), (*varied, f"seed={seed}"))
        for varied in _grid(blocks, where)
        for seed in seeds
    )
    if not points:
        raise HarnessError(
            f"{where}: the grid expands to nothing; give grid at least one block and seeds at least one seed"
        )
    compare = content.get("compare") or {}
    if not isinstance(compare, Mapping) or not _names_an_arm(compare.get("against", "mean")):
        raise HarnessError(
            f"{where}: compare={compare!r}: expected a mapping such as {{against: mean}} or"
            " {against: {baseline.name: mean, recipe.clip_high: 0.2}}"
        )
    for key in compare:
        if key != "against":
            raise HarnessError(f"{where}: compare: unknown key {key!r}; {nearest(str(key), ('against',))}")
    published = content.get("published") or []
    if not isinstance(published, list) or not all(isinstance(row, Mapping) for row in published):
        raise HarnessError(
            f"{where}: published={published!r}: expected a list such as [{{baseline: mean, AIME24: 39.69}}]"
        )
    sweep_name = name if not name.endswith((".yaml", ".yml")) else path.stem
    return Sweep(
        sweep_name, str(content.get("question") or "").strip(), points, dict(compare),
        _hours(content, "budget_gpu_hours", where), path, str(content.get("feeds") or "").strip(),
        _hours(content, "gpu_hours", where), tuple(published),
    )  # fmt: skip


def _hours(content: Mapping[str, Any], key: str, where: str) -> float | None:
    value = content.get(key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and 0 <= value < math.inf):
        raise HarnessError(f"{where}: {key}={value!r}: expected a number of hours, 0 or more")
    return value


def _read(path: Path) -> dict[str, Any]:
    from harness.config import strictyaml

    content = strictyaml.read(path)
    if not isinstance(content, dict):
        raise HarnessError(f"{path.name}: expected a mapping with the keys {', '.join(KEYS)}")
    return content


def _overrides(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise HarnessError(f"{where}: overrides={value!r}: expected a list such as [model=tiny, recipe=dapo]")
    return tuple(value)


def _seeds(value: Any, where: str) -> list[int]:
    if not isinstance(value, list) or any(isinstance(s, bool) or not isinstance(s, int) for s in value):
        raise HarnessError(f"{where}: seeds={value!r}: expected a list of whole numbers such as [1, 2, 3]")
    twice = sorted({s for s in value if value.count(s) > 1})
    if twice:
        raise HarnessError(f"{where}: seeds: {twice[0]} stands there twice; a seed is one run")
    return value


def _grid(blocks: Any, where: str) -> Iterator[tuple[str, ...]]:
    if not isinstance(blocks, list) or not all(isinstance(b, Mapping) for b in blocks):
        raise HarnessError(
            f"{where}: grid: expected a list of blocks such as - {{baseline: qae, baseline.K: [0.2, 0.8]}}"
        )
    for block in blocks:
        axes = []
        for key, value in block.items():
            values = value if isinstance(value, list) else [value]
            if not values:
                raise HarnessError(f"{where}: grid: {key} has no values, so the grid expands to nothing")
            axes.append([f"{key}={_text(v)}" for v in values])
        yield from itertools.product(*axes)


def _text(value: Any) -> str:
    """A YAML value in Hydra's override syntax."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str) and not all(c.isalnum() or c in "_-./:" for c in value):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)


def _names_an_arm(against: object) -> bool:
    """A baseline or label, or config keys with their values."""
    if isinstance(against, Mapping):
        settings = all(isinstance(k, str) and not isinstance(v, Mapping | list) for k, v in against.items())
        return bool(against) and settings
    return isinstance(against, str)
