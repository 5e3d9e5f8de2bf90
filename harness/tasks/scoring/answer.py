"""The answer that a response commits itself to."""

from __future__ import annotations

import re

from harness.tasks.scoring.markup import before_end, boxed, plain
from harness.tasks.scoring.number import exact

_MARKS = (
    re.compile(r"\banswer[\s*_`]*+(?:[:：]|\bis\b\s*:?)[ \t]*(?:[*_]+(?=[\s$\\]))?", re.IGNORECASE),
    re.compile(r"^[ \t]*####[ \t]*", re.MULTILINE),
)
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|$)", re.IGNORECASE | re.DOTALL)
# The end of a sentence: what follows explains the answer and is not part of it.
# But 10! is a factorial, and `x = 3; y = 70` two values.
_SENTENCE = re.compile(
    r"(?<=[\w)\]}$%°*!])\.(?=\s|\*|$)|(?<=[a-zA-Z]{2}|.[$*])!(?=\s|\*|$)|;(?=\s+(?!and\b|or\b)[a-zA-Z]{2,}\s)"
)
_BETWEEN_BOXES = re.compile(r"[\s$,;]*(?:\\(?:text|mbox)\s*\{\s*(?:and|or)\s*\}|and|or|,|;)[\s$]*")
_MINUS = re.compile(r"[$=:([]\s*-\s*$")
_MOST_BOXES = 10
_LONGEST_BARE = 60


def extract(response: str) -> str | None:
    r"""The answer as written, or None where the response commits itself to none.

    The last of these counts: `Answer: ...` or `the answer is ...` (to the end of its line or sentence), `\boxed{...}`,
    `<answer>...</answer>`, `#### ...`. Without any, a last line that is nothing but a number. A number somewhere in the
    text is no answer.
    """
    text = before_end(response)
    box = boxed(text)
    if box is not None:
        box = _joined(text, box)
    found = [place for place in (_marked(text), box, _in_tag(text)) if place is not None]
    if not found:
        return _bare(text)
    place, content = max(found)
    inner = boxed(content)
    if inner is not None and inner[1] != content:
        inner = _joined(content, inner)
    if inner is None and box is not None and box[0] < place < box[0] + len(box[1]):  # \boxed{\text{Answer: }70}
        inner = box[0], _MARKS[0].sub("", plain(box[1]))
    return (inner[1] if inner else content).strip() or None


def _joined(text: str, last: tuple[int, str]) -> tuple[int, str]:
    r"""The last box with those right before it: `\boxed{1}` and `\boxed{2}` are one answer of two values."""
    start, content = last
    for _ in range(_MOST_BOXES):
        before = boxed(text[:start])
        if before is None:
            break
        between = text[before[0] :][: start - before[0]].partition("{")[2].removeprefix(before[1]).removeprefix("}")
        if not _BETWEEN_BOXES.fullmatch(between) or before[1] == content:
            break
        start, content = before[0], f"{before[1]}, {content}"
    if _MINUS.search(text[:start]):  # -\boxed{5}
        content = f"-{content}" if content.replace(".", "").isalnum() else f"-({content})"
    return start, content


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
    for line in reversed(text.splitlines()):
        if len(line) > _LONGEST_BARE and line.strip(" \t$*_`"):
            return None
        line = line.strip().removeprefix("> ")
        if plain(line):
            return line if exact(line, most_words=1) is not None else None
    return None
