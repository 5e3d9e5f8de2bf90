"""The answer that a response commits itself to."""

from __future__ import annotations

import re

from harness.scoring.markup import before_end, boxed, plain
from harness.scoring.number import exact

_MARKS = (
    re.compile(r"\banswer\s*[*_`]*\s*(?:[:：]|\bis\b\s*:?)[ \t]*(?:[*_]+(?=[\s$\\]))?", re.IGNORECASE),
    re.compile(r"^\s*####\s*", re.MULTILINE),
)
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|$)", re.IGNORECASE | re.DOTALL)
# The end of a sentence: what follows explains the answer and is not part of it.
_SENTENCE = re.compile(r"(?<=[\w)\]}$%°*])[.;!](?=\s|\*|$)")
_LONGEST_BARE = 60


def extract(response: str) -> str | None:
    r"""The answer as written, or None where the response commits itself to none.

    The last of these counts: `Answer: ...` or `the answer is ...` (to the end of its line or sentence), `\boxed{...}`,
    `<answer>...</answer>`, `#### ...`. Without any, a last line that is nothing but a number. A number somewhere in the
    text is no answer.
    """
    text = before_end(response)
    found = [place for place in (_marked(text), boxed(text), _in_tag(text)) if place is not None]
    if found:
        content = max(found)[1]
        inner = boxed(content)
        return (inner[1] if inner else content).strip() or None
    return _bare(text)


def _marked(text: str) -> tuple[int, str] | None:
    places = [match for mark in _MARKS for match in mark.finditer(text)]
    for match in sorted(places, key=lambda m: m.start(), reverse=True):
        content = _line(text[match.end() :])
        if content:
            return match.start(), content
    return None


def _line(rest: str) -> str:
    for line in rest.splitlines():
        cleaned = line.strip().strip("*_` ")
        if cleaned and cleaned not in ("$$", "\\[", "\\(", "$"):
            return _SENTENCE.split(line, maxsplit=1)[0].strip()
    return ""


def _in_tag(text: str) -> tuple[int, str] | None:
    matches = [match for match in _TAGGED.finditer(text) if match[1].strip()]
    return (matches[-1].start(), matches[-1][1].strip()) if matches else None


def _bare(text: str) -> str | None:
    lines = [line for line in text.splitlines() if plain(line)]
    if not lines or len(lines[-1]) > _LONGEST_BARE or exact(lines[-1], most_words=1) is None:
        return None
    return lines[-1].strip()
