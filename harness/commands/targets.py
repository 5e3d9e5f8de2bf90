"""Which runs a command is about: a sweep, an id's first digits, filters such as `k=0.4,seed=2`, or several of these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.config import grid, reference
from harness.config.compose import project_folder
from harness.errors import HarnessError, check_choice, nearest
from harness.store.runs import Store, ids_of

_CONDITION = re.compile(r"[=<>]")
_PREFIX = re.compile(r"[0-9a-f]{1,10}")
WHICH = "a sweep or a study, the first digits of a run's id, or filters such as k=0.4,seed=2 or state=failed"
ONE = "a run's id, or its first digits"
KINDS = ("new", "queued", "running", "stopped", "failed", "done", "unknown")


def store() -> Store:
    """The store of this project."""
    return Store.default(project_folder())


def runs(store: Store, words: Sequence[str]) -> list[str]:
    """Ids of the runs that all the words name together; without a word all runs of the store.

    Sweeps and ids add up, filters narrow. Raises: HarnessError where a word names nothing.
    """
    named = [word for word in words if not _CONDITION.search(word)]
    filters = [word for word in words if _CONDITION.search(word)]
    found = list(dict.fromkeys(run for word in named for run in _named(store, word))) if named else store.ids()
    for text in filters:
        found = _filtered(store, found, text)
    return found


def one(store: Store, words: Sequence[str]) -> str:
    """The one run that the words name. Raises: HarnessError where they name none or several."""
    found = runs(store, words)
    if len(found) != 1:
        some = ", ".join(found[:6]) + (", ..." if len(found) > 6 else "")
        raise HarnessError(
            f"{' '.join(words)}: {len(found)} runs{f' ({some})' if found else ''}; name one by its first digits"
        )
    return found[0]


def study(store: Store, words: Sequence[str]) -> str | None:
    """The study that the words name as a whole, None where they name sweeps, runs, or some runs of a study."""
    if len(words) != 1 or store.sweep_file(words[0]).exists() and not words[0].startswith(grid.STUDIES):
        return None
    short = words[0].removeprefix(grid.STUDIES)
    return short if store.sweep_file(grid.STUDIES + short).exists() else None


def _named(store: Store, word: str) -> Sequence[str]:
    if store.sweep_file(word).exists():
        return ids_of(store, word)
    if store.sweep_file(grid.STUDIES + word).exists():
        return ids_of(store, grid.STUDIES + word)
    if _PREFIX.fullmatch(word):
        return [store.find(word)]
    if word in grid.names():
        raise HarnessError(grid.unapplied(word, ()))
    sweeps = [p.stem.replace("--", "/") for p in store.sweep_file(word).parent.glob("*.json")]
    if grid.is_study(word):
        raise HarnessError(f"study {word} has not begun in {store.root}: `harness ksearch {word}`")
    hint = nearest(word, [name.removeprefix(grid.STUDIES) for name in sweeps]) or "no sweep was applied yet"
    raise HarnessError(f"{word!r} is no applied sweep, no study, no run id and no filter such as k=0.4,seed=2; {hint}")


def _filtered(store: Store, among: Sequence[str], text: str) -> list[str]:
    """The runs that meet a filter; the syntax is that of analysis.sources.filters."""
    states, rest = _states(text)
    if states:
        from harness.slurm import live

        seen = live.overview(store, among)
        among = [run for run in among if seen[run].state.kind in states]
    if not rest:
        return list(among)
    from analysis.sources import filters  # with pandas, 0.3 s: only where a filter is asked for

    configs = {run: store.brief(run)["config"] for run in among if (store.folder(run) / "spec.json").exists()}
    known = {key for config in configs.values() for key, _ in reference.flat_items(config)}
    condition = {_full_key(key, known): value for key, value in filters.parse(rest).items()}
    return [run.id for run in filters.select(_records(store, configs), condition)]


def _states(text: str) -> tuple[tuple[str, ...], str]:
    """(the states asked for in our own words, the filter without them)."""
    parts = [part for part in text.split(",") if part.strip()]
    mine = [part for part in parts if re.fullmatch(r"\s*state\s*=\s*[\w|]+\s*", part)]
    states = tuple(word for part in mine for word in part.partition("=")[2].strip().split("|"))
    for state in states:
        check_choice("state", state, KINDS)
    return states, ",".join(part for part in parts if part not in mine)


def _full_key(key: str, known: set[str]) -> str:
    """`k` is baseline.K, `model` model.name, `group_size` recipe.group_size: the one key that ends so, in any case."""
    if key in known or key.startswith("$"):
        return key
    if f"{key}.name" in known:
        return f"{key}.name"
    ends = sorted(k for k in known if k.rpartition(".")[2].lower() == key.lower())
    ends = [k for k in ends if k.startswith("baseline.")] or ends  # the field says K, never pass@k's k
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise HarnessError(f"filter key {key!r} may be {', '.join(ends)}; write one of them")
    return key


def _records(store: Store, configs: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    import pandas as pd

    from analysis.run import Run

    nothing = pd.DataFrame({"step": pd.Series(dtype="int64")})
    return [Run(id=run, label=run, source="harness", history=nothing, config=config) for run, config in configs.items()]
