"""The results table in the paper's form, as HTML, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import html
import io
import math
from dataclasses import dataclass, replace

from analysis.comparison.arms import Arm
from analysis.comparison.results import Cell, Results
from analysis.report import published
from harness.errors import HarnessError, nearest

FORMATS = ("html", "md", "csv", "tex")


@dataclass(frozen=True, slots=True)
class Entry:
    """One cell, in percent."""

    value: float
    low: float
    high: float
    relative: float | None
    """Relative change against the baseline arm, percent; None for that arm."""
    points: tuple[float, float, float] | None
    """Difference with its interval, points."""
    direction: int
    """1 where the arm is shown to be better than its baseline after Holm, -1 where worse, else 0."""
    adjusted: float | None
    """Holm-adjusted p; None where there is no test."""
    published: float | None
    best: bool = False
    """Whether no arm has a higher value in this column, as printed."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows are arms, columns are benchmark and k."""

    columns: tuple[tuple[str, int], ...]
    arms: tuple[Arm, ...]
    rows: tuple[tuple[Entry, ...], ...]
    against: tuple[str, ...]
    """What each arm is compared with; "" for a baseline arm."""
    step: int
    logged: bool = False

    @property
    def caption(self) -> str:
        """What the numbers are."""
        bases = list(dict.fromkeys(name for name in self.against if name))
        base = bases[0] if len(bases) == 1 else "the baseline of the same setting, above each group"
        compared = f" Relative change against {base};" if bases else ""
        marks = " Bold: the highest value of a column." if len(self.arms) > 1 else ""
        if bases:
            marks += " ↑ better and ↓ worse than it, shown after Holm (5 %) with three seeds or more."
        if self.logged:
            return (
                f"Percent, evaluation at step {self.step} as it was logged, 95 % intervals over seeds (none"
                f" below three), which leave out that other problems would score otherwise.{compared}{marks}"
            )
        return (
            f"Percent, evaluation at step {self.step}, unbiased pass@k, 95 % intervals over seeds and problems (below"
            f" three seeds over problems only, for these runs alone).{compared}{marks}"
        )


def table(results: Results) -> Table:
    """Arranges the results by arm, benchmark and k, with the published values where model and benchmark
    match. As in the paper, an arm stands below the baseline that it is compared with.
    """
    numbers = {arm.key: i for i, arm in enumerate(results.arms)}
    arms = tuple(sorted(results.arms, key=lambda a: (numbers[(results.base(a) or a).key], results.base(a) is not None)))
    against = tuple("" if (base := results.base(arm)) is None else base.label for arm in arms)
    columns = tuple((benchmark, k) for benchmark in results.benchmarks for k in results.ks)
    rows = tuple(
        tuple(_entry(results.cell(arm, benchmark, k), arm, benchmark, k) for benchmark, k in columns) for arm in arms
    )
    return Table(columns, arms, _best(rows), against, results.step, results.logged)


def _best(rows: tuple[tuple[Entry, ...], ...]) -> tuple[tuple[Entry, ...], ...]:
    """The rows with the highest of each column marked; equal as printed is equal."""
    if len(rows) < 2:
        return rows
    highest = [max(round(entry.value, 1) for entry in column) for column in zip(*rows, strict=True)]
    return tuple(
        tuple(replace(entry, best=round(entry.value, 1) == most) for entry, most in zip(row, highest, strict=True))
        for row in rows
    )


def render(content: Table, kind: str) -> str:
    """The table as `html`, `md`, `csv` or `tex`. Raises: HarnessError for another format."""
    makers = {"html": as_html, "md": as_markdown, "csv": as_csv, "tex": as_latex}
    if kind not in makers:
        raise HarnessError(f"table format {kind!r}: {nearest(kind, FORMATS)}")
    return makers[kind](content)


def as_markdown(content: Table) -> str:
    """For an issue or a README."""
    head = ["arm", "seeds", *(_markdown(f"{benchmark} pass@{k}") for benchmark, k in content.columns)]
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|"]
    for arm, entries in zip(content.arms, content.rows, strict=True):
        cells = [arm.label, str(arm.seeds), *map(_words, entries)]
        lines.append(f"| {' | '.join(map(_markdown, cells))} |")
    return "\n".join(lines) + f"\n\n{_markdown(content.caption)}\n"


def as_csv(content: Table) -> str:
    """One row an arm, benchmark and k; empty where there is nothing."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["arm", "seeds", "benchmark", "k", "step", "percent", "low", "high", "against", "difference",
         "difference_low", "difference_high", "relative_percent", "p_holm", "significant", "published",
         "published_source"]
    )  # fmt: skip
    for arm, entries, against in zip(content.arms, content.rows, content.against, strict=True):
        for (benchmark, k), entry in zip(content.columns, entries, strict=True):
            points = ["", "", ""] if entry.points is None else [_number(x) for x in entry.points]
            writer.writerow(
                [arm.label, arm.seeds, benchmark, k, content.step, f"{entry.value:.4f}", _number(entry.low),
                 _number(entry.high), against, *points,
                 "" if entry.relative is None else f"{entry.relative:.4f}",
                 "" if entry.adjusted is None else f"{entry.adjusted:.4g}",
                 int(entry.direction != 0) if entry.points else "",
                 "" if entry.published is None else entry.published,
                 "" if entry.published is None else published.SOURCE]
            )  # fmt: skip
    return out.getvalue()


def as_latex(content: Table) -> str:
    """A booktabs table; needs \\usepackage{booktabs}."""
    groups = list(dict.fromkeys(benchmark for benchmark, _ in content.columns))
    width = len(content.columns) // len(groups)
    tops = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{_tex(name)}}}" for name in groups)
    rules = "".join(rf"\cmidrule(lr){{{3 + i * width}-{2 + (i + 1) * width}}}" for i in range(len(groups)))
    names = " & ".join(f"pass@{k}" for _, k in content.columns)
    lines = [
        rf"\begin{{tabular}}{{lr{'r' * len(content.columns)}}}", r"\toprule", rf" & & {tops} \\", rules,
        rf"Arm & Seeds & {names} \\", r"\midrule",
    ]  # fmt: skip
    for arm, entries in zip(content.arms, content.rows, strict=True):
        cells = " & ".join(_tex_cell(entry) for entry in entries)
        lines.append(rf"{_tex(arm.label)} & {arm.seeds} & {cells} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% {' '.join(content.caption.split())}", ""])


def as_html(content: Table) -> str:
    """A table element with the arms' colours, without style of its own."""
    groups = list(dict.fromkeys(benchmark for benchmark, _ in content.columns))
    width = len(content.columns) // len(groups)
    tops = "".join(f'<th class="group" colspan="{width}">{html.escape(name)}</th>' for name in groups)
    names = "".join(f'<th class="number">pass@{k}</th>' for _, k in content.columns)
    body = []
    for arm, entries in zip(content.arms, content.rows, strict=True):
        cells = "".join(f'<td class="number">{_html_cell(entry)}</td>' for entry in entries)
        swatch = f'<span class="swatch" style="background:{html.escape(arm.color)}"></span>'
        body.append(f'<tr><td>{swatch}{html.escape(arm.label)}</td><td class="number">{arm.seeds}</td>{cells}</tr>')
    return (
        f'<div class="scroll"><table class="results"><thead><tr><th rowspan="2">arm</th>'
        f'<th rowspan="2" class="number">seeds</th>{tops}</tr><tr>{names}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _entry(cell: Cell, arm: Arm, benchmark: str, k: int) -> Entry:
    interval, found = cell.interval, cell.difference
    match = published.find(arm, benchmark, k)
    relative = points = None
    direction = 0
    if found is not None:
        d = found.interval
        points = (100 * d.estimate, 100 * d.low, 100 * d.high)
        relative = None if found.relative is None else 100 * found.relative
        direction = cell.direction
    return Entry(
        value=100 * interval.estimate, low=100 * interval.low, high=100 * interval.high, relative=relative,
        points=points, direction=direction, adjusted=cell.adjusted,
        published=None if match is None else match.value,
    )  # fmt: skip


def signed(value: float) -> str:
    """`+1.3`, `-0.4`, and never `-0.0`."""
    return f"{round(value, 1) + 0.0:+.1f}"


def change(entry: Entry) -> str:
    """`+3.1 % ↑` or, where a relative change has no meaning, `+3.1 points`; empty for the baseline arm."""
    if entry.points is None:
        return ""
    arrow = ("", " ↑", " ↓")[entry.direction]
    size = f"{signed(entry.points[0])} points" if entry.relative is None else f"{signed(entry.relative)} %"
    return size + arrow


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""


def _bounded(entry: Entry) -> bool:
    return math.isfinite(entry.low) and math.isfinite(entry.high)


def _words(entry: Entry) -> str:
    value = f"**{entry.value:.1f}**" if entry.best else f"{entry.value:.1f}"
    parts = [value + (f" [{entry.low:.1f}, {entry.high:.1f}]" if _bounded(entry) else "")]
    parts += [f"({change(entry)})"] if entry.points else []
    parts += [f"paper {entry.published:.2f}"] if entry.published is not None else []
    return " ".join(parts)


def _html_cell(entry: Entry) -> str:
    small = [f"{entry.low:.1f} to {entry.high:.1f}"] if _bounded(entry) else []
    small += [change(entry)] if entry.points else []
    small += [f"paper {entry.published:.2f}"] if entry.published is not None else []
    shown = f"<strong>{entry.value:.1f}</strong>" if entry.best else f"{entry.value:.1f}"
    return shown + "".join(f"<br><small>{html.escape(line)}</small>" for line in small)


def _tex_cell(entry: Entry) -> str:
    value = rf"\textbf{{{entry.value:.1f}}}" if entry.best else f"{entry.value:.1f}"
    parts = [value]
    parts += [rf"{{\scriptsize [{entry.low:.1f}, {entry.high:.1f}]}}"] if _bounded(entry) else []
    parts += [rf"{{\scriptsize {_tex_signed(change(entry))}}}"] if entry.points else []
    parts += [rf"{{\scriptsize paper {entry.published:.2f}}}"] if entry.published is not None else []
    return " ".join(parts)


def _markdown(text: str) -> str:
    """Markdown passes HTML through, and a line break ends a row."""
    return " ".join(html.escape(text, quote=False).split()).replace("|", "\\|")


def _tex(text: str) -> str:
    # A row that begins with [ or * would be read as an option of the row break before it.
    special = {
        "[": "{[}", "*": "{*}", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "·": r"$\cdot$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    }  # fmt: skip
    return "".join(special.get(c, rf"\{c}" if c in "&%$#_{}" else c) for c in " ".join(text.split()))


def _tex_signed(text: str) -> str:
    """A change with a minus, where a hyphen would be set."""
    return rf"$-${_tex(text[1:])}" if text.startswith("-") else _tex(text)
