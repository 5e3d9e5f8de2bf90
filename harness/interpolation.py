"""Resolves interpolations in plain trees: the part of OmegaConf's syntax that conf/ and verl use, much faster.

Anything beyond `${dotted.key}`, alone or within text, and `${oc.select:key,default}` is left to OmegaConf itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.errors import HarnessError

_ONE = re.compile(r"\$\{(\w+(?:\.\w+)*)\}")
_SELECT = re.compile(r"\$\{oc\.select:\s*(\w+(?:\.\w+)*)\s*(?:,\s*(.*?)\s*)?\}", re.S)
_WORDS: Mapping[str, Any] = {"null": None, "true": True, "True": True, "false": False, "False": False}


class _Beyond(Exception):
    """A value that only OmegaConf can resolve."""


def resolve(tree: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """`tree` with its interpolations replaced by the values of `root`, of which it may be a part; plain values.

    Raises: HarnessError naming the key that is missing.
    """
    try:
        return {str(key): _value(value, root, 0) for key, value in tree.items()}
    except _Beyond:
        return _by_omegaconf(tree, root)


def _value(value: Any, root: Mapping[str, Any], depth: int) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _value(item, root, depth) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item, root, depth) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    if depth > 20 or "\\" in value:
        raise _Beyond
    whole = _ONE.fullmatch(value)
    if whole:
        return _value(_look_up(whole.group(1), root), root, depth + 1)
    chosen = _SELECT.fullmatch(value)
    if chosen:
        return _select(chosen.group(1), chosen.group(2), root, depth)
    text = _ONE.sub(lambda match: _text(_value(_look_up(match.group(1), root), root, depth + 1)), value)
    if "${" in text:
        raise _Beyond
    return text


def _look_up(key: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for name in key.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise _Beyond
        found = found[name]
    return found


def _select(key: str, default: str | None, root: Mapping[str, Any], depth: int) -> Any:
    try:
        found = _look_up(key, root)
    except _Beyond:
        return None if default is None else _default(default, root, depth)
    if found == "???":
        raise _Beyond
    return _value(found, root, depth + 1)


def _default(text: str, root: Mapping[str, Any], depth: int) -> Any:
    if text.startswith("${"):
        return _value(text, root, depth + 1)
    if text == "[]":
        return []
    if text in _WORDS:
        return _WORDS[text]
    if re.fullmatch(r"-?[1-9]\d*|0", text):
        return int(text)
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", text) and text.lower() not in ("nan", "inf", "null", "true", "false"):
        return text
    raise _Beyond


def _text(value: Any) -> str:
    if isinstance(value, Mapping | list):
        raise _Beyond
    return str(value)


def _by_omegaconf(tree: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    inner = next((key for key, value in root.items() if value is tree), None)
    try:
        whole = OmegaConf.to_container(OmegaConf.create(dict(root)), resolve=True)
    except OmegaConfBaseException as error:
        raise HarnessError(f"conf/: {str(error).splitlines()[0]}") from None
    if not isinstance(whole, dict):
        raise HarnessError("conf/: the composed config is not a mapping")
    found = whole if inner is None else whole[inner]
    return {str(key): value for key, value in found.items()}
