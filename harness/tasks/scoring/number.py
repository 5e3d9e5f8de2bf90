"""Rational numbers as people write them, read exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from harness.tasks.scoring.markup import plain
from harness.tasks.scoring.unit import MOST_WORDS, Unit, scale, split

_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d,])|(?<![\d.])\d{1,3}(?: \d{3})+(?![\d ])")
_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3}(?![\w.]))?"
_SIGN = r"[+-]?\s*"
_PART = r"(?:\{{\s*(?P<{0}>\d+)\s*\}}|(?P<{0}1>\d))"
_NUMBER = re.compile(
    rf"(?P<sign>{_SIGN})(?:(?P<whole>\d+(?:\s+(?=\d+\s*/)|\s*(?=\\frac)))?"
    rf"(?:\\frac\s*\{{\s*(?P<fsign>-)\s*(?P<ftop>\d+)\s*\}}\s*{_PART.format('fbottom')}"
    rf"|\\frac\s*{_PART.format('top')}\s*{_PART.format('bottom')}"
    rf"|(?P<over>\d+)\s*/\s*(?P<under>\d+))"
    rf"|(?P<start>\d*)\.(?P<fixed>\d*)\\overline\s*\{{\s*(?P<repeated>\d+)\s*\}}"
    rf"|(?P<decimal>{_DECIMAL}))\s*"
)
_ASSIGNED = re.compile(r"^\s*(?:[A-Za-z]|\\[a-zA-Z]+)(?:_(?:\w|\{\w+\}))?\s*=(?!=)\s*")
LONGEST = 1000
"""Characters that an answer may have; what is longer is none, and is looked at no further."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact number, with the unit that stood behind it."""

    value: Fraction
    unit: Unit | None = None

    def equals(self, other: Quantity) -> bool:
        """Whether the two are the same amount; a unit that only one of them has is left out."""
        factor = scale(self.unit, other.unit)
        return factor is not None and self.value * factor == other.value


def exact(text: str, most_words: int = MOST_WORDS) -> Fraction | None:
    r"""The number that a text consists of, or None where it is no single plain number.

    Understood: `070`, `70.0`, `1e3`, `1,000`, `1{,}000`, `-3/4`, `1 3/4`, `\frac{3}{4}`, `0.\overline{3}`, `x = 70`
    (one letter before the sign; another equation is no number), `70^\circ`, `\$70`, `70\%`, and up to `most_words`
    words of a unit behind it. A percent sign counts as a unit: 70% is 70.
    """
    if len(text) > LONGEST:
        return None
    text = plain(text)
    while _ASSIGNED.match(text):
        text = _ASSIGNED.sub("", text, count=1)
    found = quantity(text)
    if found is None or (found.unit is not None and most_words < len(re.findall("[A-Za-z]+", text))):
        return None
    return found.value


def quantity(text: str) -> Quantity | None:
    """The number with its unit, as `exact` reads it; None for an assignment."""
    if len(text) > LONGEST:  # Python itself refuses whole numbers of more than 4,300 digits
        return None
    text = re.sub(r"(?<=\d)\s*\([A-Za-z\s-]*\)$", "", plain(text))
    text, unit = split(text)
    while len(text) > 2 and text[0] == "{" and text[-1] == "}":
        text = text[1:-1].strip()
    text = _GROUPED.sub(lambda match: re.sub("[, ]", "", match[0]), text)
    match = _NUMBER.fullmatch(text)
    value = _value(match) if match else None
    return Quantity(value, unit) if value is not None else None


def canonical(value: Fraction) -> str:
    """`33` for whole numbers, `3/4` for others: one text a value."""
    return str(value)


def _value(match: re.Match[str]) -> Fraction | None:
    sign = -1 if "-" in match["sign"] else 1
    if match["decimal"] is not None:
        return sign * Fraction(match["decimal"].rstrip("."))
    if match["repeated"] is not None:
        fixed, repeated = match["fixed"], match["repeated"]
        part = Fraction(int(repeated), 10 ** len(fixed) * (10 ** len(repeated) - 1))
        return sign * (int(match["start"] or 0) + Fraction(int(fixed or 0), 10 ** len(fixed)) + part)
    if match["fsign"]:
        if match["whole"]:  # 2\frac{-1}{2} is a product
            return None
        sign = -sign
    top = match["top"] or match["top1"] or match["over"] or match["ftop"]
    bottom = match["bottom"] or match["bottom1"] or match["under"] or match["fbottom"] or match["fbottom1"]
    if not int(bottom):
        return None
    whole = int(match["whole"] or 0)  # of a mixed number: 1 1/2 is 3/2
    return sign * (whole + Fraction(int(top), int(bottom)))
