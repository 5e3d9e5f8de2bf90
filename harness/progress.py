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


_STATE = 5
"""Column of the state, which has a colour."""
_COLOURS = {
    "done": "green", "failed": "red", "running": "cyan", "stopped": "yellow", "queued": "blue", "unknown": "magenta"
}  # fmt: skip
_ANSI = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


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
    gpus: int = 0
    """On all its nodes."""
    gpu_hours: float | None = None
    """Over all attempts; None where it takes no GPU."""
    waits: str = ""
    """Why SLURM does not start it yet, in SLURM's word."""
    entropy_flag: str = ""
    """`collapsed`, `exploded` and so on; '' where nothing is wrong."""


def row(store: Store, run: str, state: RunState | None = None) -> Row:
    """Reads one run's row from its files. `state` is what is known already, from SLURM too."""
    spec = store.brief(run)
    config, state = spec["config"], state or store.state(run)
    beat = store.heartbeat(run)
    metrics: Mapping[str, Any] = beat.get("metrics") or {}
    seconds = beat.get("step_seconds")
    left = seconds * (state.total - state.step) if seconds and state.kind == "running" and state.step else None
    K = config["baseline"].get("K")
    return Row(
        run, spec["label"], config["baseline"]["name"], "" if K is None else f"{K:g}", config["model"]["name"],
        str(config["seed"]), state, _number(metrics, "entropy/all", "actor/entropy"), _number(metrics, "eval/pass@1"),
        _number(metrics, "advantage/zero_share"), left,
        config["model"]["resources"]["gpus"] * config["model"]["resources"].get("nodes", 1),
    )  # fmt: skip


def _number(metrics: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = metrics.get(name)
        if isinstance(value, int | float):
            return float(value)
    return None


def cells(rows: Sequence[Row]) -> tuple[list[tuple[str, str]], list[list[str]]]:
    """((name, `left` or `right`) of every column, the texts of every row); columns that say nothing are left out."""
    on_gpus, remarks = any(r.gpu_hours is not None for r in rows), any(r.waits or r.entropy_flag for r in rows)
    columns = [
        ("run", "left"), ("baseline", "left"), ("K", "right"), ("model", "left"), ("seed", "right"), ("state", "left"),
        ("step", "right"), ("entropy", "right"), ("pass@1", "right"), ("zero adv.", "right"), ("left", "right"),
        *([("GPU-h", "right")] if on_gpus else []), *([("", "left")] if remarks else []),
    ]  # fmt: skip
    texts = [
        [
            r.id, r.baseline, r.K, r.model, r.seed, r.state.kind, f"{r.state.step}/{r.state.total}",
            _show(r.entropy, ".3f"), _show(r.pass1, ".3f"), _show(r.zero_share, ".0%"), duration(r.seconds_left),
            *([_show(r.gpu_hours, ".1f")] if on_gpus else []),
            *([r.waits or (f"entropy {r.entropy_flag}" if r.entropy_flag else "")] if remarks else []),
        ]
        for r in rows
    ]  # fmt: skip
    return columns, texts


def table(rows: Sequence[Row], title: str) -> Table:
    """The live table."""
    from rich.table import Table
    from rich.text import Text

    out = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    columns, texts = cells(rows)
    for name, justify in columns:
        out.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for r, row_texts in zip(rows, texts, strict=True):
        styled = [Text(text) for text in row_texts]
        styled[_STATE].stylize(_COLOURS.get(r.state.kind, ""))
        if r.entropy_flag:
            styled[-1].stylize("red")
        out.add_row(*styled)
    return out


def plain(rows: Sequence[Row], title: str, *, colour: bool = False) -> str:
    """The same as text: a thousand rows in 10 ms, where the live table takes a second."""
    columns, texts = cells(rows)
    lines = [[name for name, _ in columns], *texts]
    widths = [max(len(row_texts[i]) for row_texts in lines) for i in range(len(columns))]
    out = [title]
    for number, row_texts in enumerate(lines):
        padded = [
            text.ljust(width) if justify == "left" else text.rjust(width)
            for text, width, (_, justify) in zip(row_texts, widths, columns, strict=True)
        ]
        code = _ANSI.get(_COLOURS.get(rows[number - 1].state.kind, "")) if colour and number else None
        if code:
            padded[_STATE] = f"\x1b[{code}m{padded[_STATE]}\x1b[0m"
        out.append("  ".join(padded).rstrip())
    return "\n".join(out)


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
