"""Whether the W&B server can be reached, and whether there is a key for it; without importing wandb."""

from __future__ import annotations

import netrc
import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

CLOUD = "https://api.wandb.ai"


def url() -> str:
    """WANDB_BASE_URL, or W&B's own cloud."""
    return (os.environ.get("WANDB_BASE_URL") or CLOUD).rstrip("/")


def has_key() -> bool:
    """Whether there is an API key: WANDB_API_KEY, or one that `wandb login` has put into ~/.netrc."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        return netrc.netrc(str(path)).authenticators(urllib.parse.urlsplit(url()).hostname or "") is not None
    except (OSError, netrc.NetrcParseError):
        return False


def trouble(timeout: float = 10.0) -> str:
    """Why the server cannot be reached, '' where it answers."""
    request = urllib.request.Request(url(), headers={"User-Agent": "harness"})
    try:
        with urllib.request.urlopen(request, timeout=timeout):
            return ""
    except urllib.error.HTTPError as error:
        return f"{url()} answers with status {error.code}" if error.code >= 500 else ""
    except (urllib.error.URLError, OSError, ValueError) as error:
        return f"{url()} cannot be reached ({getattr(error, 'reason', error)})"
