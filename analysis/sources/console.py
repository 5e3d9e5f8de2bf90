"""verl's console logs: `step:12 - actor/entropy:0.41 - ...`, as they come out of Ray, tee, SLURM and
terminals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from analysis.run import Run
from analysis.sources import names, rows
from analysis.sources.rows import Gather, is_step
from harness.errors import HarnessError

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
_RAY = re.compile(r"^\s*\((?P<actor>[\w.:-]+ )?pid=\d+(?:, ip=[\w.:]+)?\)\s?")
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")
# A progress bar without an end of line may stand right before it; `timing_s/step:` and `global_step:` are no start.
_START = re.compile(r"(?<![\w/@.-])step:(\d+)(?= - |\s*$| -$)")
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|nan|inf|NaN|Infinity)"
_VALUE = re.compile(rf"(?:(?:np|numpy|torch)?\.?\w+\()?({_NUMBER}|True|False)(?:[,)][^\s]*)?(?:\s.*)?$")
_PAIR = re.compile(rf"[^\s:]+:(?:(?:np\.)?\w+\()?(?:{_NUMBER}|True|False)\)?$")
_MAX_LINES = 200
"""A wrapped log line is never longer than that: verl logs some hundred metrics."""


def load(path: Path) -> list[Run]:
    """The run of a console log, or of every *.log, *.out and *.txt in a folder (below it where it holds none
    itself); one run a file, named after it; see `names` for seeds.

    A file without a single line of metrics is no run; a note on the first run names it.

    Raises:
        HarnessError: no such file, or no `step:N - name:value` in any.
    """
    if path.is_dir():
        paths = names.files(path, ("log", "out", "txt"))
        called = names.stems(paths, path)
    else:
        paths, called = [path], [path.stem]
    read = [_run(file, name) for file, name in zip(paths, called, strict=True)]
    runs = [run for run in read if run.last_step is not None]
    if not runs:
        raise HarnessError(f"{path} holds no line `step:N - name:value`: is `console` among trainer.logger?")
    silent = [Path(run.files[0]).name for run in read if run.last_step is None]
    if silent:
        runs[0] = replace(runs[0], notes=(*runs[0].notes, f"left out, without a `step:N` line: {', '.join(silent)}"))
    return names.named(runs)


def _run(path: Path, name: str) -> Run:
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise HarnessError(f"{path} cannot be read ({error.strerror}): check path and permissions") from None
    steps: list[int] = []
    gathered = Gather()
    damaged = 0
    for step, line in messages(text):
        found, bad = parse(line)
        damaged += bad
        if not is_step(step):
            damaged += 1
            continue
        gathered.add(found)
        steps.append(step)
    logged = gathered.rows(steps)
    stitched, notes = rows.stitch([logged])
    history, nan_steps = rows.frame(stitched)
    if damaged:
        notes.append(f"{path.name}: {damaged} entries could not be read (torn or mixed with other output)")
    return Run(
        id=name,
        label=name,
        source="console",
        history=history,
        nan_steps=nan_steps,
        notes=tuple(notes),
        files=(str(path),),
    )


def messages(text: str) -> Iterator[tuple[int, str]]:
    """(step, metrics) of each log message, cleaned of colours and prefixes, wrapped lines joined again."""
    visible = [_ANSI.sub("", piece) for piece in re.split(r"[\r\n]+", text)]
    full = _terminal_width(visible)
    lines = [_REPEATED.sub("", _RAY.sub("", line)) for line in visible]
    number = 0
    while number < len(lines):
        start = _START.search(lines[number])
        if start is None:
            number += 1
            continue
        joined = lines[number][start.start() :]
        for _ in range(_MAX_LINES):
            number += 1
            if number == len(lines) or _START.search(lines[number]):
                break
            glue = _glue(joined, lines[number], len(visible[number - 1]) == full)
            if glue is None:
                break
            joined += glue + lines[number]
        yield int(start[1]), joined.rstrip()


def _terminal_width(visible: list[str]) -> int | None:
    """The width at which a terminal broke lines: several lines have it and none is longer."""
    lengths = [len(line) for line in visible]
    longest = max(lengths, default=0)
    return longest if lengths.count(longest) > 1 else None


def _glue(joined: str, following: str, full: bool) -> str | None:
    """What to put between a message and the next line of the log, or None where that line is something else.

    Args:
        full: the message's last line has the terminal's width, so that it may have been broken anywhere.
    """
    if not following.strip():
        return None
    if joined.endswith(" -") or following.startswith("- "):  # broken at a blank, which is lost
        return " " if ":" in following or full else None
    if following.startswith(" - ") or joined.endswith(" - "):
        return ""
    last = joined.rsplit(" - ", 1)[-1]
    rest, _, more = following.partition(" - ")
    if not _PAIR.fullmatch(last):  # broken within a name or a value
        return "" if full or _PAIR.fullmatch(last + rest) else None
    # Broken within a number, both halves of which are numbers.
    whole = _PAIR.fullmatch(last + rest.rstrip(" -")) is not None
    return "" if whole and (full or more) else None


def parse(line: str) -> tuple[dict[str, float], int]:
    """Metrics of one message, and how many entries could not be read."""
    found: dict[str, float] = {}
    bad = 0
    for entry in _entries(line):
        name, colon, text = entry.rpartition(":")
        value = _VALUE.match(text.strip())
        if not colon or value is None or not name:
            bad += 1
            continue
        plain = {"True": "1", "False": "0"}.get(value[1], value[1])
        found[name.strip()] = float(plain)
    return found, bad


def _entries(line: str) -> Iterable[str]:
    return [entry.strip() for entry in line.split(" - ")[1:] if entry.strip(" -")]
