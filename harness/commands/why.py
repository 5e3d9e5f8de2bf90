"""`harness why RUN OTHER`: what differs between two runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from harness.commands import targets
from harness.config.reference import differences

HELP = "show how two runs differ"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Two runs."""
    parser.add_argument("run", metavar="RUN", help=targets.ONE)
    parser.add_argument("other", metavar="OTHER", help="another run")


def run(arguments: argparse.Namespace) -> int:
    """Prints what differs."""
    store = targets.store()
    a, b = (store.spec(store.find(prefix)) for prefix in (arguments.run, arguments.other))
    print(text(a, b))
    return 0


def text(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """What differs between the specs of two runs: what decides their science, then everything else."""
    lines = [f"{a['id']}  {a['label']}", f"{b['id']}  {b['label']}", ""]
    science = differences(a["signature"], b["signature"])
    lines.append("decides the science:" if science else "the same experiment: nothing that decides the science differs")
    lines += _table(science)
    rest = [
        (f"{key}.{name}", before, after)
        for key in ("config", "provenance")
        for name, before, after in differences(a[key], b[key])
        if not any(name == s or s.endswith(f".{name}") or name.endswith(f".{s}") for s, _, _ in science)
    ]
    if rest:
        lines += ["", "differs too, without deciding:", *_table(rest)]
    return "\n".join(lines)


def _table(rows: Sequence[tuple[str, Any, Any]]) -> list[str]:
    if not rows:
        return []
    width = max(len(name) for name, _, _ in rows)
    left = max(len(str(before)) for _, before, _ in rows)
    return [f"  {name:<{width}}  {before!s:<{left}}  ->  {after}" for name, before, after in rows]
