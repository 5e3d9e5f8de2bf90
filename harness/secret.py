"""Keeps secrets out of everything that is written: specs, diffs, logs, reports."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_NAME = re.compile(r"(^|_)(API_?KEY|ACCESS_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)|_KEY$", re.I)
_FILE = re.compile(r"(^|/)(\.env(\..*)?|\.netrc|\.pypirc|id_(rsa|ed25519|ecdsa)|.*\.(pem|key|p12|pfx))$")
_ASSIGNED = re.compile(
    r"""((?:api|access)[_-]?key|[\w-]*token|secret|password)(["']?\s*[:=]\s*["']?)([A-Za-z0-9_\-/+.]{12,})""", re.I
)
_KNOWN = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|wandb_v1_[A-Za-z0-9_]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,})\b"
)
_SHORTEST = 6
"""Shorter values of secret variables are not masked: they would hit ordinary text."""


def values(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Values of the environment variables whose names say that they are secret, longest first."""
    environment = os.environ if environment is None else environment
    found = {v for k, v in environment.items() if _NAME.search(k) and len(v) >= _SHORTEST and not os.path.exists(v)}
    return tuple(sorted(found, key=len, reverse=True))


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """`text` with the secrets of the environment masked wherever they stand."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def redact_source(text: str, secrets: tuple[str, ...]) -> str:
    """For a diff of source files: also what looks like a secret that somebody typed into a file."""
    text = _KNOWN.sub(MASK, redact(text, secrets))
    return _ASSIGNED.sub(lambda m: m.group(1) + m.group(2) + MASK if _random(m.group(3)) else m.group(0), text)


def _random(value: str) -> bool:
    # Letters and digits mixed: `token=os.environ` and `max_token: response_length` stay readable.
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def redact_tree(value: Any, secrets: tuple[str, ...]) -> Any:
    """The same for nested plain values."""
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, Mapping):
        return {k: redact_tree(v, secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact_tree(v, secrets) for v in value]
    return value


def is_secret_file(path: str) -> bool:
    """Files that are named in a record but never copied into one."""
    return _FILE.search(path) is not None
