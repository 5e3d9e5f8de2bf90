"""How the runs of a sweep get on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from harness.store.runs import RunState, Store

if TYPE_CHECKING:
    from rich.text import Text

_LINE_SECONDS = 20.0
"""Without a terminal a running run prints a line at most so often, and whenever its state changes."""
_SHORT_ID = 6
"""Digits of a run's id that a narrow terminal shows; commands take the first digits."""
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


def table(rows: Sequence[Row], title: str, size: os.terminal_size) -> Text:
    """The live table: all that fits into a terminal of that size."""
    from rich.text import Text

    text = plain(rows, title, colour=True, columns=size.columns, lines=size.lines)
    return Text.from_ansi(text, no_wrap=True, overflow="ellipsis")


def plain(
    rows: Sequence[Row], title: str, *, colour: bool = False, columns: int | None = None, lines: int | None = None
) -> str:
    """The table as text: a thousand rows in 10 ms.

    Args:
        columns: of the terminal: what does not fit is said more briefly, and nothing is cut off.
        lines: of the terminal: runs that run or failed come first, and the others are counted.
    """
    shown, hidden = _in_view(rows, lines)
    heads, texts, gap = _fitted(shown, columns)
    widths = _widths(heads, texts)
    out = [title]
    for number, row_texts in enumerate([[name for name, _ in heads], *texts]):
        padded = [
            text.ljust(width) if justify == "left" else text.rjust(width)
            for text, width, (_, justify) in zip(row_texts, widths, heads, strict=True)
        ]
        if colour and number:
            _paint(padded, [name for name, _ in heads], shown[number - 1])
        line = (" " * gap).join(padded).rstrip()
        out.append(f"\x1b[1m{line}\x1b[0m" if colour and not number else line)
    return "\n".join([*out, *([hidden] if hidden else [])])


def _in_view(rows: Sequence[Row], lines: int | None) -> tuple[Sequence[Row], str]:
    """(the rows that a terminal has room for, in their order; what the others are)."""
    room = None if lines is None else max(1, lines - 4)  # title, head, the line about the others, the cursor's
    if room is None or len(rows) <= room + 1:
        return rows, ""
    rank = {"running": 0, "failed": 1, "unknown": 1, "stopped": 2, "queued": 3, "new": 4, "done": 5}
    first = sorted(range(len(rows)), key=lambda i: (rank.get(rows[i].state.kind, 3), i))[:room]
    others = [rows[i].state.kind for i in sorted(set(range(len(rows))) - set(first))]
    counts = ", ".join(f"{others.count(kind)} {kind}" for kind in dict.fromkeys(others))
    return [rows[i] for i in sorted(first)], f"and {len(others)} more: {counts}"


def _fitted(rows: Sequence[Row], width: int | None) -> tuple[list[tuple[str, str]], list[list[str]], int]:
    """(columns, texts, blanks between two columns), briefer step by step until they fit."""
    heads, texts = cells(rows)
    gap = 2

    def over() -> bool:
        return width is not None and sum(_widths(heads, texts)) + gap * (len(heads) - 1) > width

    if over():
        heads = [("zero" if name == "zero adv." else name, justify) for name, justify in heads]
    if over():
        for row_texts in texts:
            row_texts[-1] = row_texts[-1].removeprefix("entropy ")
    at = [name for name, _ in heads].index("model")
    if over() and len({row_texts[at] for row_texts in texts}) == 1:  # the same in every row says nothing
        heads, texts = [h for i, h in enumerate(heads) if i != at], [t[:at] + t[at + 1 :] for t in texts]
    short = {r.id[:_SHORT_ID] for r in rows}
    if over() and len(short) == len(rows):
        texts = [[row_texts[0][:_SHORT_ID], *row_texts[1:]] for row_texts in texts]
    if over():
        gap = 1
    return heads, texts, gap


def _widths(heads: Sequence[tuple[str, str]], texts: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(name), *(len(row_texts[i]) for row_texts in texts), 0) for i, (name, _) in enumerate(heads)]


def _paint(padded: list[str], names: Sequence[str], shown: Row) -> None:
    """A state in its colour, an alarm red."""
    at = names.index("state")
    code = _ANSI.get(_COLOURS.get(shown.state.kind, ""))
    padded[at] = f"\x1b[{code}m{padded[at]}\x1b[0m" if code else padded[at]
    if shown.entropy_flag and names[-1] == "":
        padded[-1] = f"\x1b[{_ANSI['red']}m{padded[-1].rstrip()}\x1b[0m"


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
        self._live = RichLive(console=Console(file=out), auto_refresh=False, transient=False)
        self._live.start()

    def update(self, running: Sequence[str], waiting: int) -> None:
        """Draws the table again."""
        rows = [row(self._store, run) for run in self._runs]
        size = self._live.console.size
        title = f"{self._title}: {len(running)} running, {waiting} waiting"
        self._live.update(table(rows, title, os.terminal_size((size.width, size.height))), refresh=True)

    def close(self) -> None:
        """Leaves the last table on the screen."""
        self._live.stop()


def watcher(store: Store, runs: Sequence[str], title: str, out: IO[str]) -> Lines | Live:
    """The table on a terminal, lines elsewhere."""
    return Live(store, runs, title, out) if out.isatty() else Lines(store, runs, out)
