"""What the names of log files tell: which runs are seeds of one setting, and what to call them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analysis.run import Run

_SEED = re.compile(r"(?:(?<=[-_. /])|^)seed[-_=. ]?(?P<seed>\d+)(?=$|[-_. /])", re.IGNORECASE)
_SHORT = re.compile(r"(?<=[-_. /])s[-_=]?(?P<seed>\d+)$", re.IGNORECASE)
_EDGES = "-_. /"


def named(runs: Sequence[Run]) -> list[Run]:
    """The runs with seeds, where names tell them: `mean_seed1`, `mean_seed2`; `mean-s1` only beside a `mean-s2`.

    Runs without any config are otherwise each an arm of their own. The label is the name without its seed and without
    what all names begin or end with; the id stays the whole name.
    """
    found = [_split(run.label) for run in runs]
    bases: dict[str, set[int]] = {}
    for base, seed, _ in found:
        if seed is not None:
            bases.setdefault(base, set()).add(seed)
    counted = any(len(found) > 1 for found in bases.values())
    labels, seeds = [], []
    for run, (base, seed, sure) in zip(runs, found, strict=True):
        told = seed is not None and (sure or counted)
        labels.append(base if told else run.label)
        seeds.append(seed if told else None)
    short = dict(zip(dict.fromkeys(labels), shortened(list(dict.fromkeys(labels))), strict=True))
    return [
        replace(run, label=short[label], config=run.config if seed is None else {**run.config, "seed": seed})
        for run, label, seed in zip(runs, labels, seeds, strict=True)
    ]


def shortened(names: Sequence[str]) -> list[str]:
    """Names without the whole words that all of them begin or end with; as they are where nothing would be left."""
    if len(names) < 2:
        return list(names)
    front = os.path.commonprefix(list(names))
    front = front[: max((front.rfind(edge) + 1 for edge in _EDGES), default=0)]
    back = os.path.commonprefix([name[::-1] for name in names])[::-1]
    starts = [i for i in (back.find(edge) for edge in _EDGES) if i >= 0]
    back = back[min(starts) :] if starts else ""
    cut = [name[len(front) : len(name) - len(back)] for name in names]
    return cut if all(cut) and len(set(cut)) == len(names) else list(names)


def files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Files of these kinds in a folder, or below it where it holds none itself; hidden ones are left out."""
    here = sorted(p for s in suffixes for p in folder.glob(f"*.{s}"))
    below = here or sorted(p for s in suffixes for p in folder.rglob(f"*.{s}"))
    return [p for p in below if not any(part.startswith(".") for part in p.relative_to(folder).parts)]


def stems(paths: Sequence[Path], folder: Path) -> list[str]:
    """A name for each file: its own, with its folders where files of several folders are called alike."""
    own = [path.stem for path in paths]
    if len(set(own)) == len(own):
        return own
    whole = [path.relative_to(folder).with_suffix("").as_posix() for path in paths]
    return shortened(whole)


def _split(name: str) -> tuple[str, int | None, bool]:
    """(name without its seed, the seed, whether the name says `seed`)."""
    match = _SEED.search(name) or _SHORT.search(name)
    if match is None:
        return name, None, False
    before, after = name[: match.start()].rstrip(_EDGES), name[match.end() :].lstrip(_EDGES)
    base = "_".join(part for part in (before, after) if part)
    return base or "runs", int(match["seed"]), match.re is _SEED
