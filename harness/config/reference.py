"""verl's own flattened reference config: the keys that a run may set, read without importing verl."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.config import interpolation
from harness.errors import HarnessError

REFERENCE = "trainer/config/_generated_ppo_trainer.yaml"


class _Open(dict[str, Any]):
    """A mapping below which every key is accepted."""


@functools.cache
def verl_folder() -> Path:
    """Folder of the installed verl package, found without importing it (that takes 7 s)."""
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise HarnessError(
            "verl is not installed in this environment: run `make setup`, or on a cluster install this package into "
            "its verl environment with `pip install -e .`"
        )
    return Path(next(iter(spec.submodule_search_locations)))


@functools.cache
def verl_version() -> str:
    """Version of the installed verl, `unknown` for a checkout without metadata."""
    try:
        return importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def load() -> dict[str, Any]:
    """verl's reference config; treat it as read-only."""
    path = verl_folder() / REFERENCE
    try:
        return _yaml(path)
    except FileNotFoundError:
        raise HarnessError(
            f"{path} is missing: verl {verl_version()} is not the version this harness supports (0.9)"
        ) from None


@functools.cache
def known() -> dict[str, Any]:
    """The keys that a run may set: the reference's and those of verl_extensions.yaml."""
    return _extend(load(), _yaml(Path(__file__).with_name("verl_extensions.yaml")))


def _yaml(path: Path) -> dict[str, Any]:
    # libyaml's loader reads the 1,000 lines in 30 ms, the pure Python one in 350 ms.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 (a safe loader)


def _extend(base: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in extra.items():
        if isinstance(value, Mapping):
            out[key] = _extend(out.get(key) or {}, value)
        else:
            inner = out.get(key)
            out[key] = _Open(inner if isinstance(inner, Mapping) else {})
    return out


def flat_keys(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a nested mapping, inner nodes included."""
    for key, value in tree.items():
        yield prefix + str(key)
        if isinstance(value, Mapping):
            yield from flat_keys(value, f"{prefix}{key}.")


def flat_items(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every leaf of a nested mapping; an empty mapping is a leaf."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat_items(value, f"{prefix}{key}.")
        else:
            yield prefix + str(key), value


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(dotted key, value in a, value in b) for every leaf that differs; an absent one is None."""
    left, right = dict(flat_items(a)), dict(flat_items(b))
    keys = [*left, *(k for k in right if k not in left)]
    return [(k, left.get(k), right.get(k)) for k in keys if left.get(k) != right.get(k)]


def unknown_keys(settings: Mapping[str, Any]) -> list[str]:
    """The dotted keys of `settings` that verl does not know, in order."""
    return list(_unknown(settings, known(), ""))


def _unknown(settings: Mapping[str, Any], valid: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in settings.items():
        if key not in valid:
            yield prefix + str(key)
            continue
        inner = valid[key]
        if isinstance(value, Mapping) and not isinstance(inner, _Open):
            if isinstance(inner, Mapping):
                yield from _unknown(value, inner, f"{prefix}{key}.")
            elif inner is not None:
                yield from (f"{prefix}{key}.{name}" for name in value)


def merged(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The reference with `settings` laid over it, verl's interpolations resolved; plain values.

    Call `unknown_keys` first: keys that verl does not know are kept here.
    """
    tree = laid_over(load(), settings)
    return interpolation.resolve(tree, tree)


def laid_over(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """A new tree: `base` with the values of `top` over it, mappings merged key by key."""
    out = {key: laid_over(value, {}) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in top.items():
        inner = out.get(key)
        if isinstance(value, Mapping):
            out[key] = laid_over(inner if isinstance(inner, Mapping) else {}, value)
        else:
            out[key] = value
    return out
