r"""Whether two answers mean the same, part by part, with sympy for the expressions; unbounded in time.

`math_verify.verify` is not used: it rounds to 6 decimals (1/2^98 is 1/2^99 to it), judges anagrams as equal words,
takes the last side of an equation for the whole, and depends on which of the two is the truth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import sympy

from harness.tasks.scoring.form import Based, Expression, Form, Group, Matrix, Opaque, Relation, Union, Words, read
from harness.tasks.scoring.identity import is_zero, points
from harness.tasks.scoring.latex import parsed
from harness.tasks.scoring.unit import Unit, scale

_NAME = re.compile(
    # x, x_1, f(x); AB and others of a figure; (x,y)
    r"(?:[A-Za-z]|\\(?!pi\b|infty\b)[a-zA-Z]+)'?(?:_(?:\w|\{[\w,]+\}))?'?(?:(?:\^\{?-1\}?)?\([^()]*\))?"
    r"|m?\\angle[A-Z]+|[A-Z]{2,}|\|[A-Z]{2}\||\\overline\{[A-Z]+\}|\[[A-Z]+\]"
    r"|\([a-zA-Z](?:_\{?\d+\}?)?(?:,[a-zA-Z](?:_\{?\d+\}?)?)+\)"
)
T = TypeVar("T")
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def equal(gold: str, answer: str) -> bool:
    """Whether the answer is right.

    Symmetric but for one rule: where the truth is a plain number, the left side of an answer's equation may be what was
    asked for (`m+n = 33` answers 33), while a number does not answer an equation, unless that only names it (`x = 5`).
    """
    right, given = read(gold), read(answer)
    return same(right, given) or _asked(right, given)


def same(left: Form, right: Form) -> bool:
    """Whether two forms mean the same; symmetric."""
    if isinstance(left, Relation) or isinstance(right, Relation):
        return _related(left, right)
    if isinstance(left, Expression) and isinstance(right, Expression):
        return _equal(left, right)
    if isinstance(left, Words | Expression) and isinstance(right, Words | Expression):
        return _letters(left) is not None and _letters(left) == _letters(right)
    if isinstance(left, Group) and isinstance(right, Group):
        if left.is_list or right.is_list or "set" in (left.kind, right.kind):
            return _unordered(left, right) or _regions(left, right)
        if left.kind == right.kind and len(left.items) == len(right.items):
            return all(map(same, left.items, right.items))
        return False
    if isinstance(left, Matrix) and isinstance(right, Matrix):
        shapes = [[len(row) for row in matrix.rows] for matrix in (left, right)]
        pairs = zip(left.rows, right.rows, strict=False)
        return shapes[0] == shapes[1] and all(all(map(same, a, b)) for a, b in pairs)
    if isinstance(left, Based) and isinstance(right, Based):
        return left == right
    if isinstance(left, Opaque) and isinstance(right, Opaque):
        return "".join(left.text.split()) == "".join(right.text.split()) and not re.search(r"\w\s+\w", left.text)
    return _regions(left, right)


def _letters(form: Words | Expression) -> tuple[str, ...] | None:
    """A choice may be written (C) or C, a word with and without capitals."""
    if isinstance(form, Words):
        return form.words
    return (form.text.lower(),) if re.fullmatch("[A-Za-z]+", form.text) else None


def _unordered(left: Group, right: Group) -> bool:
    """Lists and sets: each of one among the other. A tuple is neither."""
    if any(not group.is_list and group.kind != "set" for group in (left, right)):
        return False
    first, second = ([*group.items] for group in (left, right))
    if "set" in (left.kind, right.kind):
        first, second = _distinct(first), _distinct(second)
    return len(first) == len(second) and _matched(first, second, same)


def _distinct(items: list[Form]) -> list[Form]:
    kept: list[Form] = []
    for item in items:
        if not any(same(item, other) for other in kept):
            kept.append(item)
    return kept


def _matched(left: Sequence[T], right: Sequence[T], alike: Callable[[T, T], bool]) -> bool:
    rest = list(right)
    for item in left:
        place = next((i for i, other in enumerate(rest) if alike(item, other)), None)
        if place is None:
            return False
        del rest[place]
    return not rest


# Relations


def _related(left: Form, right: Form) -> bool:
    first, second = _named(left), _named(right)
    if isinstance(left, Relation) and isinstance(right, Relation):
        if first and second and first[0] == second[0] and same(first[1], second[1]):
            return True
        return _constrained(left, right) or _regions(left, right)
    named, bare = (first, right) if first else (second, left)
    return (named is not None and same(named[1], bare)) or _regions(left, right)


def _named(form: Form) -> tuple[str, Form] | None:
    """(name, value) of `x = 5`, `5 = x`, `x = 2 + 3 = 5` and `x in S`, whose left side means nothing else."""
    if not isinstance(form, Relation) or len(set(form.signs)) != 1 or form.signs[0] not in ("=", "in"):
        return None
    places = (0,) if form.signs[0] == "in" else (0, len(form.parts) - 1)
    for place in places:
        if isinstance(form.parts[place], Words) or _NAME.fullmatch(form.texts[place]):
            values = [part for i, part in enumerate(form.parts) if i != place]
            if all(same(values[-1], value) for value in values[:-1]):
                return form.texts[place], values[-1]
    return None


def _asked(gold: Form, answer: Form) -> bool:
    """An equation whose last side is the number that was asked for, and whose other sides have letters or equal it."""
    if not isinstance(answer, Relation) or set(answer.signs) != {"="} or not isinstance(gold, Expression):
        return False
    number = parsed(gold.text)
    if number is None or number.free_symbols or not same(gold, answer.parts[-1]):
        return False
    return all(_lettered(part) or same(gold, part) for part in answer.parts[:-1])


def _lettered(form: Form) -> bool:
    if isinstance(form, Expression):
        value = parsed(form.text)
        return bool(value.free_symbols) if value is not None else re.search("[A-Za-z]", form.text) is not None
    return isinstance(form, Words | Opaque)


def _constrained(left: Relation, right: Relation) -> bool:
    """Whether two chains state the same equations and inequalities, each up to a factor."""
    first, second = _constraints(left), _constraints(right)
    return first is not None and second is not None and _matched(first, second, _proportional)


def _constraints(form: Relation) -> list[tuple[str, sympy.Expr]] | None:
    """(sign, expression) for each `expression sign 0`, with < and <= turned round."""
    found = []
    for sign, left, right in zip(form.signs, form.parts, form.parts[1:], strict=False):
        values = [parsed(part.text) if isinstance(part, Expression) else None for part in (left, right)]
        if sign == "in" or values[0] is None or values[1] is None:
            return None
        difference = values[0] - values[1] if sign in ("=", "!=", ">", ">=") else values[1] - values[0]
        found.append((_FLIPPED[sign] if sign in ("<", "<=") else sign, difference))
    return found


def _proportional(left: tuple[str, sympy.Expr], right: tuple[str, sympy.Expr]) -> bool:
    if left[0] != right[0]:
        return False
    a, b = left[1], right[1]
    if is_zero(a) or is_zero(b):
        return is_zero(a) and is_zero(b)
    symbols = sorted(a.free_symbols | b.free_symbols, key=str)
    for point in points(symbols):
        under = b.subs(point)
        if under.is_number and not is_zero(under):
            factor = sympy.nsimplify(a.subs(point) / under) if not under.atoms(sympy.Float) else None
            if factor is None or not factor.is_number or is_zero(factor):
                return False
            if left[0] in (">", ">=") and not factor.is_positive:
                return False
            return is_zero(a - factor * b)
    return False


# Intervals


def _regions(left: Form, right: Form) -> bool:
    first, second = _region(left), _region(right)
    if first is None or second is None:
        return False
    if first[0] is not None and second[0] is not None and first[0] != second[0]:
        return False
    return bool(first[1] == second[1] or (first[1] - second[1]).is_empty and (second[1] - first[1]).is_empty)


def _region(form: Form) -> tuple[str | None, sympy.Set] | None:
    """(variable where one is named, set of real numbers) of intervals, unions, inequalities and `x in ...`."""
    if isinstance(form, Expression):
        return (None, sympy.Reals) if form.text.replace(" ", "") == "\\mathbb{R}" else None
    if isinstance(form, Union):
        return _joined([_region(part) for part in form.parts], sympy.Union)
    if isinstance(form, Group):
        if form.kind in ("or", "and"):
            if not all(isinstance(item, Relation) for item in form.items):
                return None
            return _joined(
                [_region(item) for item in form.items], sympy.Union if form.kind == "or" else sympy.Intersection
            )
        given = [parsed(item.text) if isinstance(item, Expression) else None for item in form.items]
        values = [value for value in given if value is not None and value.is_extended_real]
        if len(values) < len(given):
            return None
        if form.kind == "set":
            return None, sympy.FiniteSet(*values)
        if form.is_list or len(values) != 2 or not (values[1] - values[0]).is_extended_positive:
            return None
        opened = form.kind[0] == "(", form.kind[1] == ")"
        if any(value.is_infinite and not is_open for value, is_open in zip(values, opened, strict=True)):
            return None  # infinity is in no set of numbers
        return None, sympy.Interval(*values, *opened)
    return _solved(form) if isinstance(form, Relation) else None


def _joined(
    parts: Sequence[tuple[str | None, sympy.Set] | None], join: Callable[..., sympy.Set]
) -> tuple[str | None, sympy.Set] | None:
    if any(part is None for part in parts):
        return None
    found = [part for part in parts if part is not None]
    names = {name for name, _ in found if name is not None}
    return (next(iter(names), None), join(*(region for _, region in found))) if len(names) < 2 else None


def _solved(form: Relation) -> tuple[str | None, sympy.Set] | None:
    if form.signs == ("in",):
        inner = _region(form.parts[1])
        return (form.texts[0], inner[1]) if inner and _NAME.fullmatch(form.texts[0]) else None
    names = [
        text for text in form.texts if re.fullmatch(r"[a-zA-Z]|\\(?!pi\b|infty\b)[a-zA-Z]+|[a-zA-Z]\([a-zA-Z]\)", text)
    ]
    if len(names) != 1:
        return None
    region: sympy.Set = sympy.Reals
    for sign, left, right in zip(form.signs, range(len(form.parts)), range(1, len(form.parts)), strict=False):
        if names[0] not in (form.texts[left], form.texts[right]):
            return None
        named_first = form.texts[left] == names[0]
        other = form.parts[right if named_first else left]
        bound = parsed(other.text) if isinstance(other, Expression) else None
        if bound is None or not bound.is_extended_real or bound.free_symbols or sign in ("=", "in"):
            return None
        sign = sign if named_first else _FLIPPED.get(sign, sign)
        region &= {
            "<": sympy.Interval.open(-sympy.oo, bound), "<=": sympy.Interval(-sympy.oo, bound),
            ">": sympy.Interval.open(bound, sympy.oo), ">=": sympy.Interval(bound, sympy.oo),
            "!=": sympy.Reals - sympy.FiniteSet(bound),
        }[sign]  # fmt: skip
    return names[0], region


# Expressions


def _equal(left: Expression, right: Expression) -> bool:
    if "".join(left.text.split()) == "".join(right.text.split()) and not re.search(
        r"\w\s+\w", left.text + "," + right.text
    ):
        return _scaled(left.unit, right.unit) == 1
    factor = _scaled(left.unit, right.unit)
    first, second = parsed(left.text), parsed(right.text)
    if factor is None or first is None or second is None:
        return False
    return is_zero(first * factor - second)


def _scaled(left: Unit | None, right: Unit | None) -> sympy.Rational | None:
    factor = scale(left, right)
    return None if factor is None else sympy.Rational(factor.numerator, factor.denominator)
