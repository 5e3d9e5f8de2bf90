"""The page itself: template, style, script and the plotting library in one file that opens without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

from plotly.offline import get_plotlyjs

from analysis.report import html


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page with an entry in its contents."""

    anchor: str
    title: str
    body: str
    """HTML."""


def render(
    heading: str,
    facts: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    charts: str,
    footer: str,
    kind: str = "sweep report",
) -> str:
    """The whole page as HTML.

    Args:
        facts: (name, value) pairs of plain text under the heading.
        charts: JSON as `cards.data` gives it.
        footer: plain text.
        kind: what the page is about, above the heading.
    """
    template = Template((resources.files(__package__) / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.text(f"{heading}: {kind}"),
        heading=html.text(heading),
        kind=html.text(kind),
        style=_asset("page.css"),
        script=_asset("page.js"),
        plotly=get_plotlyjs(),
        charts=charts,
        facts="".join(f"<div>{html.text(name)}<b>{html.text(value)}</b></div>" for name, value in facts),
        contents="".join(f'<a href="#{html.text(s.anchor)}">{html.text(s.title)}</a>' for s in sections),
        sections="\n".join(html.section(s.anchor, s.title, s.body) for s in sections),
        footer=html.text(footer),
    )


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
