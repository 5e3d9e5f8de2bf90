"""The shape of an answer: which lists, pairs, sets, intervals, matrices, relations and words it consists of.

Only what has no brackets, commas or relation signs of its own is left as an expression, for sympy to compare
(`equivalence`). What is not understood is opaque: equal to the same text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from harness.tasks.scoring import unit
from harness.tasks.scoring.markup import plain
from harness.tasks.scoring.unit import Unit


@dataclass(frozen=True, slots=True)
class Expression:
    """One value, as LaTeX, without its unit."""

    text: str
    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """Text: a name, a direction, the letter of a choice."""

    words: tuple[str, ...]
    """Without capitals."""


@dataclass(frozen=True, slots=True)
class Based:
    """A number in another base than ten."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Group:
    """Several answers: a list or a set, whose order means nothing, or a tuple."""

    items: tuple[Form, ...]
    kind: str
    """`,`, `or`, `and` (lists), `set`, or the two brackets of a tuple or interval: `()`, `[)`, `(]`, `[]`."""

    @property
    def is_list(self) -> bool:
        """Written side by side, without brackets."""
        return self.kind in (",", "or", "and")


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of entries; the kind of its brackets means nothing."""

    rows: tuple[tuple[Form, ...], ...]


@dataclass(frozen=True, slots=True)
class Union:
    r"""Parts joined by `\cup`."""

    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """An equation, an inequality or a chain of them, or `x in S`."""

    parts: tuple[Form, ...]
    signs: tuple[str, ...]
    """One of = != < <= > >= in, between each two parts."""
    texts: tuple[str, ...]
    """The parts as written."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """What is not understood."""

    text: str


Form = Expression | Words | Based | Group | Matrix | Union | Relation | Opaque

_TOKEN = re.compile(
    r"\\begin\{\w+\*?\}|\\end\{\w+\*?\}|\\\\|\\[{}]|\\[a-zA-Z]+|\\.|(?<![a-zA-Z])(?:or|and)(?![a-zA-Z])|[<>!]?=|.",
    re.DOTALL,
)
_OPENING = {"(", "[", "{", "\\{", "\\langle", "\\lfloor", "\\lceil"}
_CLOSING = {")", "]", "}", "\\}", "\\rangle", "\\rfloor", "\\rceil"}
_SIGNS = {
    "=": "=", "<": "<", ">": ">", "\\lt": "<", "\\gt": ">", "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=", "≤": "<=",
    "<=": "<=", "\\ge": ">=", "\\geq": ">=", "\\geqslant": ">=", "≥": ">=", ">=": ">=", "\\ne": "!=", "\\neq": "!=",
    "≠": "!=", "!=": "!=", "\\in": "in", "∈": "in",
}  # fmt: skip
_OPAQUE = {
    "\\cap", "\\setminus", "\\sim", "\\equiv", "\\to", "\\rightarrow", "\\Rightarrow", "\\implies", "\\mid",
    "\\cong", "\\subset", "\\subseteq", "\\notin", ":", "\\colon", "\\parallel", "\\perp", "\\pmod", "\\iff",
}  # fmt: skip
_ROUGHLY = {"\\approx", "≈"}
"""What follows only says how large the value is."""
_MATRIX = re.compile(
    r"(?P<factor>[^&]*?)\\begin\{(?P<kind>[pb]?matrix|array)\}(?:\{[^{}]*\})?(?P<rows>(?:(?!\\begin).)*)\\end\{(?P=kind)\}",
    re.DOTALL,
)
_THOUSANDS = re.compile(r"[^,;]*?(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])[^,;]*")
"""1,000 is one number, as is that of x = 1,000; in brackets, commas part."""
_BASED = re.compile(r"(?:\((?=\w+\)))?([0-9A-F]+)\)?\s*_\s*(?:\{\s*(\w+)\s*\}|(\d)|ten)")
_BASE_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "sixteen": 16,
}  # fmt: skip
_FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "log", "exp",
    "sqrt", "inf", "infty", "max", "min", "gcd", "lcm", "det", "mod",
}  # fmt: skip
_MOST_SIGNS = 4
"""Plus-or-minus signs in one expression, each of which doubles its values."""


def read(raw: str) -> Form:
    """The form of an answer as written, dollar signs and all."""
    return _read(plain(raw), wrapped=bool(re.search(r"\\(?:text\w*|mbox|mathrm|mathbf)\s*\{[^{}]*[A-Za-z]", raw)))


def _read(text: str, wrapped: bool = False) -> Form:
    text = _bare(text)
    words = _words(text, wrapped)
    if words is not None:
        return words
    parts = list(_split(text, {",", ";", "or", "and", "\\cup", *_SIGNS, *_OPAQUE, *_ROUGHLY}))
    marks = {mark for _, mark in parts}
    if marks & _ROUGHLY:
        value, *rest = (part for part, _ in _split(text, _ROUGHLY))
        return _read(value if len(rest) != 1 or len(value) > 1 else f"{value} = {rest[0]}")  # x \approx 3.5
    if marks & _OPAQUE:
        return Opaque(text)
    if marks & {",", ";", "or", "and"}:
        return _list(text)
    if marks & set(_SIGNS):
        return _relation(text)
    if "\\cup" in marks:
        return Union(tuple(_read(part) for part, _ in _split(text, {"\\cup"})))
    return _bracketed(text) or _based(text) or _expression(text)


def _bare(text: str) -> str:
    """Without braces that only group: `{70}`."""
    text = text.strip()
    while text.startswith("{") and _closes(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closes(text: str) -> int:
    """Where the bracket that a text begins with is closed; -1 where it is not."""
    depth = 0
    for token, place in _tokens(text):
        depth += (token in _OPENING) - (token in _CLOSING)
        if not depth:
            return place + len(token) - 1
    return -1


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    for match in _TOKEN.finditer(text):
        yield match[0], match.start()


def _split(text: str, marks: set[str]) -> Iterator[tuple[str, str]]:
    """(part, mark behind it) at the marks that stand outside of all brackets; the last part has the mark ""."""
    depth, begin = 0, 0
    for token, place in _tokens(text):
        if token in _OPENING or token.startswith("\\begin"):
            depth += 1
        elif token in _CLOSING or token.startswith("\\end{"):
            depth -= 1
        elif not depth and token in marks:
            yield text[begin:place].strip(), token
            begin = place + len(token)
    yield text[begin:].strip(), ""


def _words(text: str, wrapped: bool) -> Words | None:
    """Text where it is nothing but words: in `\\text{}`, of four letters or more, or no product of sorted letters."""
    choice = re.fullmatch(r"\(\s*([A-Za-z])\s*\)|([A-Z])\s*\)", text)
    if choice:
        return Words(((choice[1] or choice[2]).lower(),))
    if not re.fullmatch(r"[A-Za-z][A-Za-z' -]*", text) or text in ("or", "and"):
        return None
    found = re.findall(r"[A-Za-z']+", text)
    long = any(len(word) > 2 and word not in _FUNCTIONS and (list(word) != sorted(word)) for word in found)
    if not (long or any(len(word) > 3 and word not in _FUNCTIONS for word in found) or wrapped):
        return None
    if wrapped and text in ("i", "e"):
        return None
    return Words(tuple(word.lower() for word in found))


def _list(text: str) -> Form:
    if _THOUSANDS.fullmatch(text):
        return _read(text.replace(",", ""))
    parts = [(part, mark) for part, mark in _split(text, {",", ";", "or", "and"}) if part]  # ", and" is one mark
    marks = {mark for _, mark in _split(text, {",", ";", "or", "and"})} - {""}
    kind = "or" if "or" in marks else "and" if "and" in marks else ","
    if len(parts) == 1:
        return _read(parts[0][0])
    items = tuple(_read(part) for part, _ in parts)
    first = items[0]
    if isinstance(first, Relation) and first.signs == ("=",) and not any(isinstance(i, Relation) for i in items[1:]):
        values = Group(_flat((first.parts[1], *items[1:])), kind)  # x = 1, 2 has one name for all
        return Relation((first.parts[0], values), ("=",), (first.texts[0], text))
    return Group(_flat(items), kind)


def _flat(items: tuple[Form, ...]) -> tuple[Form, ...]:
    """Items with the two values of a plus-or-minus sign side by side with the others."""
    return tuple(
        part for item in items for part in (item.items if isinstance(item, Group) and item.is_list else (item,))
    )


def _relation(text: str) -> Form:
    parts = list(_split(text, set(_SIGNS)))
    if any(not part for part, _ in parts):
        return Opaque(text)
    return Relation(
        tuple(_read(part) for part, _ in parts),
        tuple(_SIGNS[mark] for _, mark in parts[:-1]),
        tuple("".join(part.split()) for part, _ in parts),
    )


def _bracketed(text: str) -> Form | None:
    matrix = _MATRIX.fullmatch(_outer(text))
    if matrix:
        return _matrix(matrix["rows"], matrix["factor"].removesuffix("\\cdot").strip())
    if text.startswith("\\{") and _closes(text) == len(text) - 1:
        inner = text[2:-2].strip()
        if not inner:
            return Group((), "set")
        found = _read(inner)
        if isinstance(found, Opaque | Relation):
            return Opaque(text)
        return Group(found.items if isinstance(found, Group) and found.is_list else (found,), "set")
    text = re.sub(r"^\\langle\b", "(", re.sub(r"\\rangle$", ")", text))
    if text[:1] in ("(", "[") and _closes(text) == len(text) - 1:
        parts = list(_split(text[1:-1], {",", ";"}))
        if len(parts) > 1:
            return Group(tuple(_read(part) for part, _ in parts), text[0] + text[-1])
        inner_form = _read(text[1:-1])
        if not isinstance(inner_form, Expression):  # (1 \pm 2), ((1, 2)), (x = 5)
            return inner_form
    return None


def _matrix(text: str, factor: str) -> Form:
    """The entries of a matrix, each times the factor before it."""
    rows = [row for row, _ in _split(text, {"\\\\"})]
    while rows and not rows[-1]:
        rows.pop()
    made = tuple(tuple(_read(entry) for entry, _ in _split(row, {"&"})) for row in rows)
    if not factor:
        return Matrix(made)
    if any(not isinstance(entry, Expression) or entry.unit for row in made for entry in row):
        return Opaque(f"{factor} {text}")
    number = f"{factor}1" if factor in ("-", "+") else factor
    return Matrix(tuple(tuple(Expression(f"({number}) \\cdot ({entry.text})") for entry in row) for row in made))  # type: ignore[union-attr]


def _outer(text: str) -> str:
    """A matrix without round or square brackets of its own around it."""
    if re.match(r"[(\[]\s*\\begin", text) and _closes(text) == len(text) - 1:
        return text[1:-1].strip()
    return text


def _based(text: str) -> Form | None:
    found = _BASED.fullmatch(text) or re.fullmatch(r"([0-9A-F]+)\s*(?:\(?base (\w+)\)?)()", text)
    if not found:
        return None
    name = found[2] or found[3] or "ten"
    base = _BASE_WORDS.get(name.lower()) or (int(name) if name.isdigit() else 0)
    if not 2 <= base <= 16 or any(int(digit, 16) >= base for digit in found[1]):
        return Opaque(text)
    if base == 10:
        return Expression(found[1])
    return Based(found[1].lstrip("0") or "0", base)


def _expression(text: str) -> Form:
    body, of = unit.split(text)
    if not body:
        return Opaque(text)
    if body != text and of is not None:
        inner = _bare(body)
        grouped = _bracketed(inner)
        if grouped is not None and not isinstance(grouped, Expression):
            return grouped
        body = inner
    signs = re.findall(r"\\(?:pm|mp)\b", body)
    if len(signs) > _MOST_SIGNS:
        return Opaque(text)
    if signs:
        return Group(tuple(Expression(value, of) for value in _signed(body, signs)), ",")
    return Expression(body, of)


def _signed(text: str, signs: list[str]) -> Iterator[str]:
    r"""The values of an expression with `\pm`: all combinations, or, where a `\mp` goes with it, the two."""
    linked = "\\mp" in signs
    for chosen in ("+-", "-+") if linked else product("+-", repeat=len(signs)):
        found = iter(chosen) if not linked else None

        def sign(
            match: re.Match[str], found: Iterator[str] | None = found, chosen: tuple[str, ...] | str = chosen
        ) -> str:
            return next(found) if found else chosen[match[0] == "\\mp"]

        yield re.sub(r"\\(?:pm|mp)\b", sign, text)
