"""Small pieces of HTML. Every text that comes from a run passes through `text`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_SAMPLE = {"solid": "", "dash": "6 3", "dot": "2 2", "dashdot": "6 2 2 2"}


def text(value: object) -> str:
    """Plain text as HTML."""
    return html.escape(str(value), quote=True)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of HTML cells; `numbers` are the columns aligned right."""
    kind = [' class="number"' if i in numbers else "" for i in range(len(head))]
    top = "".join(f"<th{kind[i]}>{cell}</th>" for i, cell in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{kind[i]}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def items(lines: Iterable[str]) -> str:
    """A list of HTML lines; empty for none."""
    found = "".join(f"<li>{line}</li>" for line in lines)
    return f"<ul>{found}</ul>" if found else ""


def badge(label: str, kind: str = "") -> str:
    """A small rounded label; kind is good, warn, bad or empty."""
    return f'<span class="badge {kind}">{text(label)}</span>'


def swatch(color: str) -> str:
    """A square of an arm's colour."""
    return f'<span class="swatch" style="background:{text(color)}"></span>'


def section(anchor: str, title: str, body: str) -> str:
    """A titled section that the contents can link to."""
    return f'<section id="{text(anchor)}"><h2>{text(title)}</h2>{body}</section>'


def legend_entry(name: str, color: str, dash: str) -> str:
    """A switch that hides or shows an arm, with a sample of its line."""
    if dash == "fill":
        sample = f'<rect x="6" width="12" height="10" rx="2" fill="{text(color)}"/>'
    else:
        sample = (
            f'<line x1="0" y1="5" x2="24" y2="5" stroke="{text(color)}" stroke-width="3"'
            f' stroke-dasharray="{_SAMPLE.get(dash, "")}"/>'
        )
    return (
        f'<button type="button" data-arm="{text(name)}" aria-pressed="true" title="hide in every figure">'
        f'<svg viewBox="0 0 24 10" aria-hidden="true">{sample}</svg>{text(name)}</button>'
    )
