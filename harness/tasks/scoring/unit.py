"""Units behind an answer: what belongs to the value, and what only names it.

A unit that only one side gives is left out of the comparison (70 cm answers 70). Two units of measure are compared:
70 m is not 70 cm, and 0.7 m is. Other words (apples, ways) are labels and are not judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

MOST_WORDS = 6

_SCALES = {
    "length": {
        "m meter meters metre metres": Fraction(1), "km kilometer kilometers kilometre kilometres": Fraction(1000),
        "cm centimeter centimeters centimetre centimetres": Fraction(1, 100),
        "mm millimeter millimeters millimetre millimetres": Fraction(1, 1000),
        "in inch inches": Fraction(254, 10_000), "ft foot feet": Fraction(3048, 10_000),
        "yd yds yard yards": Fraction(9144, 10_000), "mi mile miles": Fraction(1_609_344, 1000),
    },
    "mass": {
        "g gram grams": Fraction(1), "kg kilogram kilograms": Fraction(1000),
        "mg milligram milligrams": Fraction(1, 1000),
        "lb lbs pound pounds": Fraction(45_359_237, 100_000), "oz ounce ounces": Fraction(45_359_237, 1_600_000),
    },
    "time": {
        "s sec secs second seconds": Fraction(1), "min mins minute minutes": Fraction(60),
        "h hr hrs hour hours": Fraction(3600), "day days": Fraction(86_400), "week weeks": Fraction(604_800),
    },
    "volume": {"L liter liters litre litres": Fraction(1), "mL ml milliliter milliliters": Fraction(1, 1000)},
    "dollar": {"dollar dollars": Fraction(1), "cent cents": Fraction(1, 100)},
    "euro": {"euro euros": Fraction(1)},
    "angle": {"degree degrees deg": Fraction(1)},
    "radian": {"radian radians rad": Fraction(1)},
    "percent": {"percent pct": Fraction(1)},
    "speed": {"mph": Fraction(1)},
}  # fmt: skip
_KNOWN = {
    name: (kind, factor) for kind, scale in _SCALES.items() for names, factor in scale.items() for name in names.split()
}
_SIGNS = {"%": "percent", "^\\circ": "degree"}
_CURRENCIES = {"\\$": "dollar", "€": "euro", "£": "sterling", "¥": "yen"}
_SQUARED = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_ORDINALS = ("st", "nd", "rd", "th")
_SHORT = (
    "men",
    "way",
    "cup",
    "box",
    "boy",
    "pen",
    "dog",
    "cat",
    "car",
    "bag",
    "hat",
    "egg",
    "set",
    "row",
    "job",
    "bus",
)
# Words that change the value of a number or leave it open, so that it is no number with a unit.
_NO_UNIT = {
    "and", "or", "to", "pi", "times", "plus", "minus", "over", "squared", "cubed", "sqrt", "log", "ln", "sin", "cos",
    "tan", "cot", "sec", "csc", "hundred", "thousand", "million", "billion", "trillion", "dozen", "divided",
    "factorial", "mod", "base", "less", "more", "than", "if", "when", "where", "approximately", "infinity",
    "infty", "not", "no", "only", "choose", "at", "most", "least", "between", "none", "both",
}  # fmt: skip
_WORD = r"[A-Za-z]++(?:\s*\^\s*\{?\s*[23]\s*\}?)?"
# Possessive (`++`): a word is read once, else the time doubles with every letter of a sentence behind a number.
_WORDS = re.compile(
    rf"(?P<gap>\s*|\s*\^\s*\{{\s*(?=(?:st|nd|rd|th)\b))(?P<words>{_WORD}(?:[\s./-]+{_WORD})*+)[\s.}}]*$"
)
_LONE = re.compile(r"(\^\\circ|%)\s*$")
_ANGLES = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)\b|\\circ")
"""Before a degree sign: sin 30 degrees is a number of another kind than 30 degrees."""
_CURRENCY = re.compile(r"^([+-]?)\s*(\\\$|[€£¥])\s*|(\\\$|[€£¥])$")


@dataclass(frozen=True, slots=True)
class Unit:
    """What stands behind (or, of money, before) a value."""

    kind: str | None
    """What it measures, with its power (`length^2`); None for a label, which is compared with nothing."""
    factor: Fraction
    """Of the kind's own unit."""


LABEL = Unit(None, Fraction(1))


def split(text: str) -> tuple[str, Unit | None]:
    r"""(value, unit) of text without the marks around it (`markup.plain`): `15 cm^2`, `90^\circ`, `\$36`, `70%`,
    `12th`.

    Algebra is no unit: `5xy` and `3R^2` are themselves. A word counts where a space parts it from the value
    (`\text{...}` does that) and it has four letters or is a known unit; at a digit only the latter (`70cm`).
    """
    found = _CURRENCY.search(text)
    if found:
        rest = (found[1] or "") + text[found.end() :] if found[2] else text[: found.start()]
        return rest.strip(), _of(_CURRENCIES[found[2] or found[3]], 1)
    lone = _LONE.search(text)
    if lone and not _ANGLES.search(text[: lone.start()]):
        return text[: lone.start()].strip(), _of(_SIGNS[lone[1]], 1)
    start = _start(text)
    if start is None:
        return text, None
    found = _WORDS.match(text, start)
    if not found or not text[:start].strip():
        return text, None
    words = re.findall(rf"{_WORD}|[/]", found["words"])
    unit = _unit([re.sub(r"[\s{}]", "", word) for word in words], attached=not found["gap"])
    if unit is None or (not found["gap"] and not text[start - 1].isdigit()):
        return text, None
    return text[:start].strip(), unit


def _start(text: str) -> int | None:
    """Where the words at the end begin, the space before them included; None where there are none."""
    end = len(text.rstrip(" .}"))
    tail = re.search(r"(?:[A-Za-z]|\s|[./-]|\^\s*\{?\s*[23]\s*\}?)*$", text[:end][-200:])
    if tail is None or not re.search("[A-Za-z]", tail[0]):
        return None
    start = end - len(tail[0])
    while start < end and text[start] in "./-":  # of the number
        start += 1
    if start and text[start - 1] == "\\":  # a command is no word: \pi cm
        start += len(re.match("[A-Za-z]*", text[start:])[0])  # type: ignore[index]
    if start >= 3 and re.search(r"\^\s*\{\s*$", text[:start]) and re.match(r"\s*(?:st|nd|rd|th)\b", text[start:]):
        start = text.rindex("^", 0, start)
    return start


def _unit(words: list[str], attached: bool) -> Unit | None:
    names = [word.split("^")[0] for word in words if word != "/"]
    if not names or len(names) > MOST_WORDS or any(name.lower() in _NO_UNIT for name in names):
        return None
    if len(names) == 1 and names[0] in _ORDINALS:
        return LABEL
    first = names[0]
    known = first in _KNOWN or first.lower() in _SQUARED or (first.lower() in _KNOWN and len(first) > 1)
    if attached and (not known or len(first) < 2):
        return None
    if not known and not (len(first) > 3 and list(first) != sorted(first)) and first.lower().rstrip("s") not in _SHORT:
        return None
    if any(len(name) < 2 and name not in _KNOWN for name in names[1:]):
        return None
    power = _SQUARED.get(first.lower(), 1)
    measures = words[1:] if power > 1 else words
    if len(measures) != 1:
        return LABEL
    name, _, raised = measures[0].partition("^")
    return _of(name, power * int(raised or 1)) or LABEL


def _of(name: str, power: int) -> Unit:
    found = _KNOWN.get(name) or (_KNOWN.get(name.lower()) if len(name) > 1 else None)
    if found is None:
        return Unit(name, Fraction(1)) if name in _CURRENCIES.values() else LABEL
    kind, factor = found
    return Unit(kind if power == 1 else f"{kind}^{power}", factor**power)


def scale(left: Unit | None, right: Unit | None) -> Fraction | None:
    """What a value in the left unit is to be multiplied by to be in the right one; None where it cannot be."""
    if left is None or right is None or left.kind is None or right.kind is None:
        return Fraction(1)
    return left.factor / right.factor if left.kind == right.kind else None
