"""Keeps secrets out of everything that is written: specs, diffs, logs, reports."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_NAME = re.compile(
    r"(API_?KEY|ACCESS_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)|(^|_)(PASS|PWD|PAT)$|_KEY$", re.I
)
_FILE = re.compile(
    r"(^|/)(\.env(\..*)?|\.netrc|\.pypirc|\.git-credentials|\.htpasswd|id_(rsa|dsa|ed25519|ecdsa)|kaggle\.json"
    r"|credentials(\.(json|ya?ml|toml|ini|csv))?|secrets?\.(ya?ml|json|toml|ini|env|txt)|.*\.(pem|key|p12|pfx|jks|keystore))$"
)
_ASSIGNED = re.compile(
    r"""((?:api|access)[_-]?key|[\w-]*token|secret|passw(?:or)?d)(["']?\s*[:=]\s*["']?)([A-Za-z0-9_\-/+.]{12,})""", re.I
)
_BEARER = re.compile(r"\b(Bearer +)[A-Za-z0-9_\-/+.=]{12,}")
_QUOTED = re.compile(r"""(passw(?:or)?d|passphrase|secret)(["']?\s*[:=]\s*)(["'])([^"'\n$]{4,})\3""", re.I)
_KEY_BLOCK = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_KNOWN = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|wandb_v1_[A-Za-z0-9_]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}|A[KS]IA[A-Z0-9]{16}"
    r"|AIza[A-Za-z0-9_-]{35})\b"
)
_IN_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://)(?:([^\s/:@'\"]*):[^\s/@'\"]+|[^\s/:@'\"]{20,})@", re.I)
"""`https://name:password@host`, and a long token in place of the name."""
_SHORTEST = 6
"""Shorter values of secret variables are not masked: they would hit ordinary text."""


def values(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Values of the environment variables whose names say that they are secret, longest first; of a key of several
    lines each line too, because logs are masked by the line."""
    environment = os.environ if environment is None else environment
    found = {v for k, v in environment.items() if _NAME.search(k) and len(v) >= _SHORTEST and not os.path.exists(v)}
    lines = {line for v in found for line in v.splitlines() if not line.startswith("-----")}
    found |= {line.strip() for line in lines if len(line.strip()) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """`text` with the secrets of the environment, and what by its form can only be one, masked wherever it stands."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    if "://" in text:
        text = _IN_URL.sub(lambda m: f"{m[1]}{'' if m[2] is None else m[2] + ':'}{MASK}@", text)
    return _KNOWN.sub(MASK, text)


def redact_source(text: str, secrets: tuple[str, ...]) -> str:
    """For a diff of source files: also what looks like a secret that somebody typed into a file."""
    text = _KEY_BLOCK.sub(rf"\1{MASK}\2", redact(text, secrets))
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _QUOTED.sub(lambda m: m[1] + m[2] + m[3] + MASK + m[3], text)
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
