"""What went wrong with a W&B server. The SDK calls nearly everything a failed login; a request of our own
tells more."""

from __future__ import annotations

import http.client
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import HarnessError

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)
_PROBE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs are looked for."""

    base_url: str
    path: str
    """entity/project"""


def insist(action: Callable[[], _T], place: Place, *, tries: int, pause: float) -> _T:
    """The result of `action`, which is done again after a pause when the server failed in passing (429,
    5xx, silence).

    Raises:
        HarnessError: the server stayed unreachable, the key was refused, or the project does not exist.
    """
    for number in range(1, tries + 1):
        try:
            return action()
        except HarnessError:
            raise
        except Exception as error:  # the SDK's exceptions have private types; what is not the SDK's goes on
            verdict = explain(error, place)
            if verdict is None:
                raise
            if verdict.final or number == tries:
                raise verdict.error() from error
            wait = pause * 2 ** (number - 1)
            _LOG.warning("%s: %s; trying again in %g s", place.base_url, verdict.text, wait)
            time.sleep(wait)
    raise HarnessError(f"tries={tries}: at least one try is needed")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an exception of the SDK means."""

    text: str
    final: bool
    """Whether asking again is of no use."""
    place: Place

    def error(self) -> HarnessError:
        """As the user reads it."""
        return HarnessError(self.text) if self.final else unreachable(self.place, self.text)


def explain(error: BaseException, place: Place) -> Verdict | None:
    """What an exception from the SDK means, or None if it is not one of the SDK's."""
    chain = _chain(error)
    if not any(type(link).__module__.partition(".")[0] == "wandb" for link in chain):
        if isinstance(error, ValueError) and "Could not find" in str(error):
            return Verdict(
                f"W&B project {place.path} at {place.base_url} does not exist or this key may not see it: check the "
                f"spelling, and the login with `wandb login --verify`",
                True,
                place,
            )
        return None
    status = next((found for link in chain if (found := _status(link))), None)
    text = " ".join(str(error).split())
    if status in (401, 403):
        return Verdict(
            f"W&B at {place.base_url} refuses the key (HTTP {status}): run `wandb login --relogin`", True, place
        )
    if status == 404 or "Could not find" in text:
        return Verdict(f"W&B project {place.path} at {place.base_url} does not exist: check the spelling", True, place)
    if "configured" in text and "key" in text.lower() or "No authentication" in text:
        return Verdict("no W&B key: run `wandb login`, or set WANDB_API_KEY", True, place)
    if "API key" in text and status is None and "busy" not in text:
        return Verdict(f"the W&B key is malformed ({text}): run `wandb login --relogin`", True, place)
    return Verdict(f"HTTP {status}" if status else text, False, place)


def unreachable(place: Place, reason: str) -> HarnessError:
    """The error for a server that does not answer, with what a request of our own finds."""
    found = probe(place.base_url)
    return HarnessError(
        f"W&B at {place.base_url} is unreachable ({found or reason}): check the network and WANDB_BASE_URL, try "
        "later, or read the run folders with --source local"
    )


def probe(base_url: str) -> str:
    """What a plain request to the server meets: '' if it answers sensibly, even with a refusal."""
    request = urllib.request.Request(
        f"{base_url}/graphql", b'{"query": "{ __typename }"}', {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_PROBE_SECONDS):
            return ""
    except urllib.error.HTTPError as error:
        if error.code == 429:
            return "HTTP 429, too many requests"
        return f"HTTP {error.code}" if error.code >= 500 else ""
    except TimeoutError:
        return f"no answer in {_PROBE_SECONDS:g} s"
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return f"no answer in {_PROBE_SECONDS:g} s"
        return str(getattr(reason, "strerror", None) or reason).lower()


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        # CommError keeps the original exception in `exc`.
        link = link.__cause__ or getattr(link, "exc", None)
    return chain


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    status = getattr(response, "http_status", None) or getattr(response, "status_code", None)
    return int(status) if status else None
