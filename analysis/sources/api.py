"""Runs of a W&B project through `wandb.Api`: the whole history, its rows counted, and errors that say what
is wrong."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import wandb

from analysis.run import Run, State
from analysis.sources import cache, filters, local, rows, server, wire
from analysis.sources.filters import Filter
from analysis.sources.framing import Losses
from analysis.sources.wandbfile import Fragment
from harness.errors import HarnessError

_LOG = logging.getLogger(__name__)
_PAGE = 10_000
_STATES: dict[str, State] = {
    "finished": "finished",
    "failed": "failed",
    "crashed": "crashed",
    "killed": "crashed",
    "preempted": "crashed",
    "running": "running",
    "preempting": "running",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a server, and how often to ask again."""

    timeout: int = 20
    """Seconds a request may take; within them wandb's own core asks again on 429 and 5xx."""
    tries: int = 3
    """How often a request that failed in passing is made before the server counts as unreachable."""
    pause: float = 2.0
    """Seconds before the second try; doubled before each further one."""
    silence: float = 120.0
    """Seconds without a single row from any run until a scan counts as hung: the SDK itself would wait for
    ever."""
    workers: int = 4
    """Histories that are fetched at once; more only meets the rate limit."""

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= 4:
            raise HarnessError(f"workers={self.workers}: 1 to 4, more meets W&B's rate limit")


def load(
    path: str,
    where: Filter | None = None,
    *,
    cached: Path | None = None,
    patience: Patience | None = None,
    base_url: str | None = None,
    key: str | None = None,
) -> list[Run]:
    """The runs of `entity/project`, oldest first, with their whole history: never W&B's sample of 500 rows.

    Histories are cached in `cached` while the server's line count is that of the entry; of a run with more
    lines only the new ones are fetched. A count that does not fit what came is noted in the run.

    Args:
        where: a filter; what W&B's server surely understands is sent to it, all is applied again to what
        comes. base_url, key: instead of WANDB_BASE_URL and the stored login.

    Raises:
        HarnessError: the server is unreachable, the key is refused, or there is no such project.
    """
    entity, slash, project = path.strip("/").partition("/")
    if not slash or not entity or not project or "/" in project:
        raise HarnessError(f"source wandb:{path}: write wandb:ENTITY/PROJECT")
    patience = patience or Patience()
    if where:
        filters.check(where)
    place = server.Place(base_url or str(wandb.setup().settings.base_url), f"{entity}/{project}")
    overrides = {"base_url": base_url} if base_url else None

    def listing() -> list[Any]:
        # A fresh Api: one caches its listings for ever.
        api = wandb.Api(overrides=overrides, timeout=patience.timeout, api_key=key)
        found = api.runs(place.path, filters=filters.for_server(where), order="+created_at", lazy=False)
        # Paging over a list that grows meanwhile can name a run twice.
        return list({remote.id: remote for remote in found}.values())

    remotes = server.insist(listing, place, tries=patience.tries, pause=patience.pause)
    if where:  # all but the history is known: do not fetch what the filter drops
        remotes = [remote for remote in remotes if filters.matches(_bare(remote, place), where)]
    histories = _each(remotes, lambda remote, alive: _history(remote, place, cached, patience, alive), place, patience)
    return [_run(remote, place, *history) for remote, history in zip(remotes, histories, strict=True)]


def _each(
    remotes: Sequence[Any], fetch: Callable[[Any, Callable[[], None]], Any], place: server.Place, patience: Patience
) -> list[Any]:
    """`fetch` of every run, a few at once. Daemon threads: a hung request must not keep the program from
    ending."""
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    told: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
    stop = threading.Event()
    for number in range(len(remotes)):
        todo.put(number)

    def work() -> None:
        while not stop.is_set():
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            try:
                told.put((number, fetch(remotes[number], lambda: told.put(None))))
            except Exception as error:  # whatever it is, the caller's thread must raise it, not this one swallow it
                told.put((number, error))

    for _ in range(min(patience.workers, len(remotes))):
        threading.Thread(target=work, daemon=True, name="wandb-history").start()
    results: dict[int, Any] = {}
    try:
        while len(results) < len(remotes):
            try:
                message = told.get(timeout=patience.silence)
            except queue.Empty:
                raise server.unreachable(place, f"no row in {patience.silence:g} s") from None
            if message is not None:
                if isinstance(message[1], Exception):
                    raise message[1]
                results[message[0]] = message[1]
    finally:
        stop.set()
    return [results[number] for number in range(len(remotes))]


def _history(
    remote: Any, place: server.Place, cached: Path | None, patience: Patience, alive: Callable[[], None]
) -> tuple[Fragment, tuple[str, ...]]:
    """A run's rows, from the cache as far as they are there, and a note if their number is not the
    server's."""
    address = Path(f"wandb:{place.base_url}/{place.path}/{remote.id}@{remote.created_at}")
    entry = cache.entry(str(address), cached) if cached else None
    known = cache.load(entry, address) if entry else None
    lines = int(remote.history_line_count or 0)
    if known is not None and known.rows == lines:
        return known, ()
    fragment = None
    if known is not None and 0 < known.rows < lines:
        fragment = _newer(remote, address, place, patience, alive, known)
        if fragment is not None and fragment.rows != lines and remote.state != "running":
            fragment = None
    if fragment is None:  # nothing known, or it was rewound on the server and what is known may be void
        fragment = _whole(remote, address, place, patience, alive)
    # A running run gets rows after it was listed; a row less than listed is a loss in any case.
    if fragment.rows < lines or (fragment.rows > lines and remote.state != "running"):
        note = f"the server counts {lines} rows, {fragment.rows} came"
        _LOG.warning("%s/%s: %s", place.path, remote.id, note)
        return fragment, (note,)
    if entry:
        cache.store(entry, fragment)
    return fragment, ()


def _whole(remote: Any, address: Path, place: server.Place, patience: Patience, alive: Callable[[], None]) -> Fragment:
    return _fragment(address, None, [_numbers(row) for row in _scan(remote, 0, place, patience, alive)])


def _newer(
    remote: Any,
    address: Path,
    place: server.Place,
    patience: Patience,
    alive: Callable[[], None],
    known: Fragment,
) -> Fragment | None:
    """The known rows and those after them, or None where the last known row is no longer what it was."""
    found = [_numbers(row) for row in _scan(remote, known.offset, place, patience, alive)]
    last = {
        name: values[-1]
        for name, values in known.columns.items()
        if not np.isnan(values[-1]) or known.rows - 1 in known.nans.get(name, ())
    }
    # Compared as text: NaN equals itself there.
    if not found or {name: str(value) for name, value in found[0].items()} != {
        k: str(float(v)) for k, v in last.items()
    }:
        return None
    return _fragment(address, known, found[1:])


def _scan(
    remote: Any, first: int, place: server.Place, patience: Patience, alive: Callable[[], None]
) -> list[dict[str, Any]]:
    """All rows from W&B's step `first` on."""

    def scan() -> list[dict[str, Any]]:
        found = []
        # Without keys: with them W&B drops every row that lacks one. Without its cache: that goes stale.
        for row in remote.scan_history(use_cache=False, page_size=_PAGE, min_step=first):
            found.append(row)
            if len(found) % 1000 == 1:
                alive()
        return found

    return server.insist(scan, place, tries=patience.tries, pause=patience.pause)


def _fragment(address: Path, known: Fragment | None, fresh: Sequence[dict[str, float]]) -> Fragment:
    gathered = rows.Gather()
    for row in fresh:
        gathered.add(row)
    start = known.rows if known is not None else 0
    columns, nans = rows.joined(known.columns if known else {}, known.nans if known else {}, start, gathered.rows())
    own = columns.get("_step", np.empty(0))
    counted = own[np.isfinite(own)]
    last = int(counted.max()) if len(counted) else -1
    return Fragment(
        path=address,
        size=start + len(fresh),
        mtime_ns=0,
        offset=last,
        check=0,
        last_number=0,
        rows=start + len(fresh),
        columns=columns,
        nans=nans,
        losses=Losses(),
    )


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found.update(wire.numbers(value, name))
        elif (number := wire.number(value)) is not None:
            found[name] = number
    return found


def _run(remote: Any, place: server.Place, fragment: Fragment, notes: tuple[str, ...]) -> Run:
    axis = local.step_axis([fragment])
    placed, lost = local.on_axis(fragment, axis)
    stitched, more = rows.stitch([placed], axis)
    history, nan_steps = rows.frame(stitched)
    if lost:
        more.append(f"{fragment.rows - len(placed)} rows have no step and are left out")
    if axis != local.STEP and len(history):
        more.append(f"no {local.STEP} in the log: the step is {axis}")
    bare = _bare(remote, place)
    return dataclasses.replace(bare, history=history, nan_steps=nan_steps, notes=(*notes, *more))


def _bare(remote: Any, place: server.Place) -> Run:
    """All but the history: what a filter can ask for."""
    created = str(remote.created_at or "")
    summary = {name: value for name, value in dict(remote.summary_metrics).items() if name != "_wandb"}
    return Run(
        id=remote.id,
        label=remote.name or remote.id,
        source="wandb",
        history=rows.empty(),
        config=dict(remote.config),
        summary=summary,
        state=_STATES.get(remote.state, "unknown"),
        group=remote.group,
        tags=tuple(remote.tags or ()),
        created=datetime.fromisoformat(created) if created else None,
        files=(f"{place.base_url}/{place.path}/runs/{remote.id}",),
    )
