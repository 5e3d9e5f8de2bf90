"""A file of a dataset repository, from the local cache of the hub or over the network."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from harness.errors import HarnessError
from harness.tasks.data.catalogue import Source


def fetch(source: Source) -> Path:
    """Path of the source's file.

    Raises: HarnessError that says what to download where, if the hub cannot be reached or has no such file.
    """
    if source.repository is None:
        raise HarnessError(f"{source.name} is a set of your own: give its file with --from FILE")
    try:
        from huggingface_hub import constants, hf_hub_download
    except ImportError:
        raise HarnessError(f"huggingface_hub is not installed: {_by_hand(source)}") from None
    cached_only = not _resolves(urlsplit(constants.ENDPOINT).hostname or "")  # else it retries for half a minute
    try:
        found = hf_hub_download(source.repository, source.file, repo_type="dataset", local_files_only=cached_only)
        return Path(found)
    except Exception as error:  # the client raises its own, its HTTP library's and the system's errors; one remedy
        reason = "no network" if cached_only else (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise HarnessError(f"{source.name}: the hub gave no file ({reason}): {_by_hand(source)}") from None


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


def _by_hand(source: Source) -> str:
    return (
        f"download {source.url} where there is a network, then run "
        f"`harness data prepare {source.name} --from {Path(source.file).name}`"
    )
