"""Stops what is left of a sweep when its first runs all fail in one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness import files
from harness.errors import HarnessError
from harness.slurm import live, withhold
from harness.store.runs import Store, ids_of

NOBODYS_FAULT = ("", "preempted", "time limit", "node failure", "cancelled", "superseded", "claimed")
"""Causes that say nothing about the other runs."""


_UNRECORDED = "no record"
"""The cause of a job that ended before our first word: its Python or its setup lines are wrong."""


@dataclass(frozen=True, slots=True)
class End:
    """The last end of a run since the sweep was applied."""

    run: str
    outcome: str
    """`done`, `failed` or `stopped`."""
    cause: str


def verdict(ends: Sequence[End], stop_after: int) -> str:
    """Why the rest of a sweep should not start, '' if it should.

    It should not when the first `stop_after` runs that ended have failed in one way and none got through.
    """
    counted = [end for end in ends if end.outcome == "failed" and end.cause not in NOBODYS_FAULT]
    if len(counted) < stop_after or any(end.outcome == "done" for end in ends):
        return ""
    causes = {end.cause for end in counted}
    if len(causes) > 1:
        return ""
    cause = causes.pop()
    how = "before the harness said a word" if cause == _UNRECORDED else f"with {cause!r}"
    what = f"the first {len(counted)} runs of the sweep failed {how} ({counted[0].run})"
    return f"withheld: {what}; mend it, then apply the sweep again"


def pull(store: Store, sweep: str, stop_after: int, unheard: str = "") -> list[str]:
    """Cancels the sweep's jobs that have not started where the verdict says so. Inside the gate.

    `unheard` is the run whose job asks, where it has ended without a word of ours. Returns the runs that were withheld.
    """
    try:
        runs = list(ids_of(store, sweep))
        since = str(files.read_json(store.sweep_file(sweep)).get("applied", ""))
    except (HarnessError, FileNotFoundError):
        return []
    recorded = ends(store, runs, since)
    seen: Mapping[str, live.Seen] = {}
    if unheard in runs:  # else nobody asks squeue before there is something to stop
        seen = live.look(store, runs)
        silent = [r for r, s in seen.items() if s.state.kind == "failed" and not store.attempts(r)]
        recorded += [End(r, "failed", _UNRECORDED) for r in dict.fromkeys([*silent, unheard])]
    reason = verdict(recorded, stop_after)
    return withhold.withhold(store, seen or live.look(store, runs), runs, reason) if reason else []


def ends(store: Store, runs: Sequence[str], since: str) -> list[End]:
    """The last end of each run since the sweep was applied, in the order in which they happened."""
    found = []
    for run in runs:
        attempts = store.attempts(run)
        last = attempts[-1] if attempts else {}
        if str(last.get("ended", "")) >= since and "outcome" in last and not _goes_on(store, run):
            found.append((str(last["ended"]), End(run, str(last["outcome"]), str(last.get("cause", "")))))
    return [end for _, end in sorted(found, key=lambda item: item[0])]


def _goes_on(store: Store, run: str) -> bool:
    """Whether the run's job has put itself back into the queue: that end was not its last."""
    events, _ = files.read_json_lines(store.folder(run) / "events.jsonl")
    return bool(events) and events[-1].get("event") == "requeued"
