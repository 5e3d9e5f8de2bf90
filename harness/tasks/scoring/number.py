"""Rational numbers as people write them, read exactly."""

from __future__ import annotations

import re
from fractions import Fraction

from harness.tasks.scoring.markup import plain

_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d,])|(?<![\d.])\d{1,3}(?: \d{3})+(?![\d ])")
_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3}(?![\w.]))?"
_SIGN = r"[+-]?\s*"
_NUMBER = re.compile(
    rf"(?P<sign>{_SIGN})(?:(?P<whole>\d+(?:\s+(?=\d+\s*/)|\s*(?=\\frac)))?"
    rf"(?:\\frac\s*\{{\s*(?P<fsign>{_SIGN})(?P<top>\d+)\s*\}}\s*\{{\s*(?P<bottom>\d+)\s*\}}"
    rf"|\\frac\s*(?P<top1>\d)\s*(?P<bottom1>\d)"
    rf"|(?P<over>\d+)\s*/\s*(?P<under>\d+))"
    rf"|(?P<decimal>{_DECIMAL}))"
)
# Possessive (`++`): a word is read once, else the time doubles with every letter of a sentence behind a number.
_UNIT = re.compile(r"%|(?:[A-Za-z]++(?:\s*(?:\^\s*\{?\s*[23]\s*\}?|[²³]))?[\s./]*+)+")
_ASSIGNED = re.compile(r"^[^=<>≤≥≠,;]*=\s*")
# Words after a number that change its value or leave it open, so that it is no number with a unit.
_NO_UNIT = re.compile(
    "and|or|to|pi|[eixyznkabc]|times|plus|minus|over|squared|cubed|sqrt|log|ln|sin|cos|tan|hundred|thousand|million|"
    "billion|trillion|dozen|divided|factorial|mod|per|base|less|more|than|if|when|where|approximately",
    re.IGNORECASE,
)
_MOST_UNIT_WORDS = 6
LONGEST = 1000
"""Characters that an answer may have; what is longer is none, and is looked at no further."""


def exact(text: str, most_words: int = _MOST_UNIT_WORDS) -> Fraction | None:
    r"""The number that a text consists of, or None where it is no single plain number.

    Understood: `070`, `70.0`, `1e3`, `1,000`, `1{,}000`, `-3/4`, `1 3/4`, `\frac{3}{4}`, `x = 70`, `70^\circ`, `\$70`,
    `70\%`, and up to `most_words` words of a unit behind it. A percent sign counts as a unit: 70% is 70.
    """
    if len(text) > LONGEST:  # Python itself refuses whole numbers of more than 4,300 digits
        return None
    text = re.sub(r"\s*\([A-Za-z\s-]*\)$", "", plain(text))
    while len(text) > 2 and text[0] == "{" and text[-1] == "}":
        text = text[1:-1].strip()
    while _ASSIGNED.match(text):
        text = _ASSIGNED.sub("", text, count=1)
    text = _GROUPED.sub(lambda match: re.sub("[, ]", "", match[0]), text.lstrip("$€£¥ "))
    match = _NUMBER.match(text)
    if match is None or not _is_unit(text[match.end() :], most_words):
        return None
    if match["whole"] and match["fsign"] and match["fsign"].strip():  # 2\frac{-1}{2} is a product
        return None
    return _value(match)


def canonical(value: Fraction) -> str:
    """`33` for whole numbers, `3/4` for others: one text a value."""
    return str(value)


def _is_unit(rest: str, most_words: int) -> bool:
    if not rest.strip():
        return True
    if not _UNIT.fullmatch(rest.strip()):
        return False
    words = re.findall(r"[A-Za-z]+", rest)
    return len(words) <= most_words and not any(_NO_UNIT.fullmatch(word) for word in words)


def _value(match: re.Match[str]) -> Fraction | None:
    sign = -1 if "-" in match["sign"] else 1
    if match["decimal"] is not None:
        return sign * Fraction(match["decimal"].rstrip("."))
    if match["top"] is not None:
        sign = -sign if "-" in match["fsign"] else sign
    top, bottom = next(
        (match[a], match[b])
        for a, b in (("top", "bottom"), ("top1", "bottom1"), ("over", "under"))
        if match[a] is not None
    )
    if not int(bottom):
        return None
    whole = int(match["whole"] or 0)  # of a mixed number: 1 1/2 is 3/2
    return sign * (whole + Fraction(int(top), int(bottom)))
