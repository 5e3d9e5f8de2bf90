"""How the runs of a sweep get on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from harness.store import RunState, Store

if TYPE_CHECKING:
    from rich.table import Table

_LINE_SECONDS = 20.0
"""Without a terminal a running run prints a line at most so often, and whenever its state changes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run at one moment."""

    id: str
    label: str
    baseline: str
    K: str
    model: str
    seed: str
    state: RunState
    entropy: float | None
    """Nats a token."""
    pass1: float | None
    """Last evaluation, mean of the benchmarks."""
    zero_share: float | None
    """Share of responses with zero advantage."""
    seconds_left: float | None


def row(store: Store, run: str) -> Row:
    """Reads one run's row from its files."""
    spec = store.spec(run)
    config, state = spec["config"], store.state(run)
    beat = store.heartbeat(run)
    metrics: Mapping[str, Any] = beat.get("metrics") or {}
    seconds = beat.get("step_seconds")
    left = seconds * (state.total - state.step) if seconds and state.kind == "running" and state.step else None
    K = config["baseline"].get("K")
    return Row(
        run, spec["label"], config["baseline"]["name"], "" if K is None else f"{K:g}", config["model"]["name"],
        str(config["seed"]), state, _number(metrics, "entropy/all", "actor/entropy"), _number(metrics, "eval/pass@1"),
        _number(metrics, "advantage/zero_share"), left,
    )  # fmt: skip


def _number(metrics: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = metrics.get(name)
        if isinstance(value, int | float):
            return float(value)
    return None


def table(rows: Sequence[Row], title: str) -> Table:
    """The live table, also that of `harness status`."""
    from rich.table import Table

    out = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("run", "left"), ("baseline", "left"), ("K", "right"), ("model", "left"), ("seed", "right"), ("state", "left"),
        ("step", "right"), ("entropy", "right"), ("pass@1", "right"), ("zero adv.", "right"), ("left", "right"),
    ):  # fmt: skip
        out.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    colours = {"done": "green", "failed": "red", "running": "cyan", "stopped": "yellow"}
    for r in rows:
        kind = r.state.kind
        style = colours.get(kind, "")
        out.add_row(
            r.id, r.baseline, r.K, r.model, r.seed, f"[{style}]{kind}[/]" if style else kind,
            f"{r.state.step}/{r.state.total}", _show(r.entropy, ".3f"), _show(r.pass1, ".3f"),
            _show(r.zero_share, ".0%"), duration(r.seconds_left),
        )  # fmt: skip
    return out


def line(r: Row) -> str:
    """One plain line for a log."""
    parts = [f"{r.id}  {r.label:<28}", f"{r.state.kind:<8} {r.state.step:>4}/{r.state.total}"]
    parts += [f"{name} {_show(value, form)}" for name, value, form in (
        ("entropy", r.entropy, ".3f"), ("pass@1", r.pass1, ".3f"), ("zero-adv.", r.zero_share, ".0%")
    ) if value is not None]  # fmt: skip
    return "  ".join(parts) + (f"  {duration(r.seconds_left)} left" if r.seconds_left is not None else "")


def duration(seconds: float | None) -> str:
    """Such as `45s`, `3m10s`, `2h05m`; '' for None."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02d}s" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def _show(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


class Lines:
    """Plain lines: each run when its state changes, and every 20 s while it runs."""

    def __init__(
        self, store: Store, runs: Sequence[str], out: IO[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._runs, self._out, self._clock = store, runs, out, clock
        self._said: dict[str, tuple[str, float]] = {}

    def update(self, running: Sequence[str], waiting: int) -> None:
        """Prints what is new."""
        instant = self._clock()
        for run in self._runs:
            r = row(self._store, run)
            kind, last = self._said.get(run, ("", 0.0))
            if r.state.kind == kind and (kind != "running" or instant - last < _LINE_SECONDS):
                continue
            if kind or r.state.kind not in ("new", "stopped"):
                print(line(r), file=self._out, flush=True)
            self._said[run] = (r.state.kind, instant)

    def close(self) -> None:
        """Nothing to put back."""


class Live:
    """One table that is drawn again in place."""

    def __init__(self, store: Store, runs: Sequence[str], title: str, out: IO[str]) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._store, self._runs, self._title = store, runs, title
        self._live = RichLive(console=Console(file=out), refresh_per_second=2, transient=False)
        self._live.start()

    def update(self, running: Sequence[str], waiting: int) -> None:
        """Draws the table again."""
        rows = [row(self._store, run) for run in self._runs]
        self._live.update(table(rows, f"{self._title}: {len(running)} running, {waiting} waiting"))

    def close(self) -> None:
        """Leaves the last table on the screen."""
        self._live.stop()


def watcher(store: Store, runs: Sequence[str], title: str, out: IO[str]) -> Lines | Live:
    """The table on a terminal, lines elsewhere."""
    return Live(store, runs, title, out) if out.isatty() else Lines(store, runs, out)
