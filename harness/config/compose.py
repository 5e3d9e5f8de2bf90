"""From the choices and values of a command line to the settings of one run and its full verl config."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import interpolation, microbatch, reference
from harness.config.settings import Settings
from harness.config.typed import construct, to_plain
from harness.errors import HarnessError, nearest

VERL = "verl"
_HYDRA_ONLY = ("hydra",)


@dataclass(frozen=True, slots=True)
class Composed:
    """One run, composed and checked."""

    settings: Settings
    """The harness's own settings."""
    asked: dict[str, Any]
    """What this run asks of verl, all keys known to it; `reference.merged` makes it the full config."""
    overrides: tuple[str, ...]
    """What was asked for, in Hydra's syntax."""


@dataclass(frozen=True, slots=True)
class _Override:
    key: str
    value: Any
    text: str


def project_folder() -> Path:
    """The checkout that this package runs from: it holds conf/ and sweeps/."""
    return Path(__file__).resolve().parents[2]


@functools.cache
def groups() -> dict[str, tuple[str, ...]]:
    """Config groups of conf/ and their options."""
    folder = project_folder() / "conf"
    found = {p.name: tuple(sorted(f.stem for f in p.glob("*.yaml"))) for p in sorted(folder.iterdir()) if p.is_dir()}
    if not found:
        raise HarnessError(f"{folder} has no config groups: run from a checkout, installed with `pip install -e .`")
    return found


def compose(overrides: Sequence[str]) -> Composed:
    """Composes and checks one run.

    `overrides` is Hydra's syntax: `baseline=qae` chooses a file of conf/baseline, `baseline.K=0.4` sets a value,
    `verl.<key>=...` sets any key that verl knows.

    Raises: HarnessError naming the override or the file, and the nearest valid name.
    """
    parsed = [_parse(text) for text in overrides]
    choices = tuple({o.key: o.text for o in parsed if o.key in groups()}.values())  # the last choice of a group wins
    base = _base(choices)
    tree, extra = reference.laid_over(base.tree, {}), dict[str, Any]()
    for o in parsed:
        if o.key in groups():
            continue
        if o.key == "baseline.name":
            raise HarnessError(f"override {o.text!r}: a name alone changes no estimator: choose it as baseline=...")
        if o.key in base.owners:
            # verl's group size, learning rate and so on are also settings of ours: one value, whichever name is used
            _set(tree, base.owners[o.key], o.value)
        elif o.key.startswith(f"{VERL}."):
            _check_not_group(o)
            _set(extra, o.key[len(VERL) + 1 :], o.value)
        else:
            _check_key(o, base.known)
            _set(tree, o.key, o.value)
    ours = {key: value for key, value in tree.items() if key not in (VERL, *_HYDRA_ONLY)}
    settings = construct(Settings, interpolation.resolve(ours, ours)).placed()
    # The typed settings go back in, so that verl's values see the defaults of settings nobody mentioned.
    verl = tree.get(VERL) or {}
    asked = reference.laid_over(interpolation.resolve(verl, {**to_plain(settings), VERL: verl}), extra)
    _check_verl(asked, parsed, choices)
    _check_mask(settings, asked)
    microbatch.fit(asked, settings)
    asked.setdefault("trainer", {})["experiment_name"] = settings.label
    asked.setdefault("harness", {})["reference_K"] = settings.baseline.K or settings.baseline.reference_K
    return Composed(settings, asked, tuple(overrides))


def forget() -> None:
    """Forgets what was read from conf/: for a process in which its files change."""
    for cached in (groups, _base, _compose_groups):
        cached.cache_clear()


@dataclass(frozen=True, slots=True)
class _Base:
    """What the chosen groups alone give; the same for all runs of a grid that choose them."""

    tree: Mapping[str, Any]
    """Values, interpolations unresolved; read-only."""
    known: frozenset[str]
    """Every key that an override may set, verl's apart."""
    owners: Mapping[str, str]
    """verl keys whose value in conf/ is just `${setting}`, and that setting."""


@functools.cache
def _base(choices: tuple[str, ...]) -> _Base:
    tree = _compose_groups(choices)
    keys = {k for k in reference.flat_keys(tree) if k.split(".")[0] not in (VERL, *_HYDRA_ONLY)}
    owners = {}
    for key, value in reference.flat_items(tree.get(VERL) or {}, f"{VERL}."):
        match = re.fullmatch(r"\$\{([\w.]+)\}", value) if isinstance(value, str) else None
        if match:
            owners[key] = match.group(1)
    return _Base(tree, frozenset(keys | _typed_keys(Settings, "")), owners)


def _plain(tree: Any) -> dict[str, Any]:
    return {str(key): value for key, value in tree.items()} if isinstance(tree, dict) else {}


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> _Override:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from hydra.errors import HydraException

    try:
        parsed = _parser(OverridesParser).parse_override(text)
    except HydraException as error:
        raise HarnessError(
            f"override {text!r}: {str(error).splitlines()[0]}; write key=value, such as baseline.K=0.4"
        ) from None
    key = parsed.key_or_group
    if parsed.package is not None:
        raise HarnessError(f"override {text!r}: groups have one place each: write {key}=...")
    if parsed.type == OverrideType.ADD or parsed.type == OverrideType.FORCE_ADD:
        raise HarnessError(f"override {text!r}: leave out the '+'; every valid key is known already")
    if parsed.type == OverrideType.DEL:
        raise HarnessError(f"override {text!r}: keys cannot be deleted; set {key}=null or another value")
    if parsed.is_sweep_override():
        asked, _, value = text.partition("=")
        raise HarnessError(
            f"override {text!r} names several values: write a sweep in sweeps/ and run `harness sweep NAME`; "
            f"one value with a comma is quoted twice: \"{asked}='{value}'\""
        )
    return _Override(key, parsed.value(), text)


@functools.cache
def _parser(cls: Any) -> Any:
    return cls.create()


@functools.cache
def _compose_groups(choices: tuple[str, ...]) -> dict[str, Any]:
    """Hydra's composition of the group choices alone (values are set later): costs 30 ms, so it is kept."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf

    for choice in choices:
        group, _, option = choice.partition("=")
        if option.strip("'\"") not in groups()[group]:
            raise HarnessError(f"{choice}: conf/{group} has no {option!r}; {nearest(option, groups()[group])}")
    with _fresh_hydra(GlobalHydra), initialize_config_dir(str(project_folder() / "conf"), version_base="1.3"):
        try:
            tree = hydra_compose("config", overrides=list(choices))
        except HydraException as error:
            raise HarnessError(f"conf/: {' '.join(str(error).split())}") from None
    plain = OmegaConf.to_container(tree, resolve=False)
    return _plain(plain)


@contextlib.contextmanager
def _fresh_hydra(global_hydra: Any) -> Iterator[None]:
    # Hydra keeps one global instance. Inside somebody's own @hydra.main it is theirs: put it back.
    before = global_hydra.instance().hydra
    global_hydra.instance().clear()
    try:
        yield
    finally:
        global_hydra.instance().hydra = before


def _typed_keys(cls: Any, prefix: str) -> set[str]:
    """Every dotted key that the settings have, whether or not a file of conf/ mentions it."""
    import dataclasses
    import typing

    keys: set[str] = set()
    for name, hint in typing.get_type_hints(cls).items():
        keys.add(prefix + name)
        if dataclasses.is_dataclass(hint):
            keys |= _typed_keys(hint, f"{prefix}{name}.")
    return keys


def _check_key(override: _Override, known: Collection[str]) -> None:
    if override.key in known:
        return
    values = {k for k in known if k not in groups()}
    hint = nearest(override.key, values | {f"{g}=..." for g in groups()})
    raise HarnessError(
        f"override {override.text!r}: no setting {override.key!r}; {hint}; verl's own keys start with 'verl.'"
    )


def _check_not_group(override: _Override) -> None:
    inner: Any = reference.known()
    for name in override.key.split(".")[1:]:
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    if isinstance(inner, Mapping) and inner and not isinstance(override.value, Mapping):
        example = f"{override.key}.{next(iter(inner))}=..."
        raise HarnessError(f"override {override.text!r}: {override.key} is a group of keys; set one of them: {example}")


def _set(tree: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for name in parents:
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            inner = tree[name] = {}
        tree = inner
    there = tree.get(last)
    both = isinstance(value, Mapping) and isinstance(there, Mapping)
    tree[last] = reference.laid_over(there, value) if both else value  # type: ignore[arg-type]


def _check_verl(asked: Mapping[str, Any], parsed: Sequence[_Override], choices: Sequence[str]) -> None:
    unknown = reference.unknown_keys(asked)
    if not unknown:
        return
    key = f"{VERL}.{unknown[0]}"
    valid = [f"{VERL}.{k}" for k in reference.flat_keys(reference.known())]
    parent = key.rpartition(".")[0]
    siblings = [k for k in valid if k.rpartition(".")[0] == parent]
    hint = nearest(key, siblings or valid)
    origin = _origin(unknown[0], parsed, choices)
    raise HarnessError(f"{key}: verl {reference.verl_version()} has no such key (set in {origin}); {hint}")


def _check_mask(settings: Settings, asked: Mapping[str, Any]) -> None:
    """A mask must know what a success is; two reward values say it themselves, shaped ones do not."""
    baseline = settings.baseline
    shaping = asked.get("reward", {}).get("reward_kwargs", {}).get("overlong_buffer_cfg", {}).get("enable")
    if shaping and baseline.mask != "both" and baseline.success_threshold is None:
        raise HarnessError(
            f"baseline.mask={baseline.mask}: recipe={settings.recipe.name} penalises long responses, so rewards "
            "have more than two values: set baseline.success_threshold (0 for rewards of -1 and 1, 0.5 for 0 and 1)"
        )


def _origin(key: str, parsed: Sequence[_Override], choices: Sequence[str]) -> str:
    """Where a verl key was set: an override, or the file of conf/ that mentions it."""
    for o in parsed:
        if o.key == f"{VERL}.{key}" or o.key.startswith(f"{VERL}.{key}."):
            return f"the override {o.text!r}"
    import yaml

    chosen = {c.replace("=", "/") for c in choices}
    files = sorted(
        (project_folder() / "conf").rglob("*.yaml"), key=lambda p: p.relative_to(project_folder()).as_posix()
    )
    hits = []
    for path in files:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        if key in set(reference.flat_keys(content.get(VERL) or {})):
            hits.append(path.relative_to(project_folder()).as_posix())
    for hit in hits:
        if any(hit == f"conf/{choice}.yaml" for choice in chosen):
            return hit
    return " or ".join(hits) or "conf/"
