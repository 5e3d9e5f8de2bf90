r"""Whether two answers mean the same, part by part, with sympy for the expressions; unbounded in time.

The LaTeX parser is that of math-verify (latex2sympy2_extended). Its `verify` is not used, and what it is given is prepared,
because both lose meaning: they take 1/2^98 for 1/2^99 (rounding to 6 decimals), `2(3)` and `12 3` for sums, `52_8` for 52,
`5t` for 5 (a unit), R for r, f' for f, anagrams of words for the words, and the last side of an equation for the whole.
Two expressions are equal here when their difference is proven to be zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy
from sympy.core.function import AppliedUndef

from harness.scoring.form import Based, Expression, Form, Group, Matrix, Opaque, Relation, Union, Words, read
from harness.scoring.unit import Unit, scale

_DIGITS = 30
"""Of a difference, to show that it is not zero; sympy works with as many more as that takes, up to `_MOST_DIGITS`."""
_MOST_DIGITS = 2000
_POINTS = ((3, 7), (-5, 3), (11, 13), (-17, 19), (23, 5))
"""Numbers to try for the variables."""
_NAME = re.compile(
    r"(?:[A-Za-z]|\\(?!pi\b|infty\b)[a-zA-Z]+)'?(?:_(?:\w|\{[\w,]+\}))?'?(?:\([^()]*\)|\^\{?-1\}?\([^()]*\))?"  # x, f(x)
    r"|m?\\angle[A-Z]+|[A-Z]{2,}|\|[A-Z]{2}\||\\overline\{[A-Z]+\}|\[[A-Z]+\]|[A-Z]\([^()]*\)"  # of a figure or an event
    r"|\([a-zA-Z](?:_\{?\d+\}?)?(?:,[a-zA-Z](?:_\{?\d+\}?)?)+\)"  # (x,y)
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
            return _unordered(left, right)
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
    for point in _points(symbols):
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
            return _joined([_region(item) for item in form.items], sympy.Union if form.kind == "or" else sympy.Intersection)
        values = [parsed(item.text) if isinstance(item, Expression) else None for item in form.items]
        if any(value is None or not value.is_extended_real for value in values):
            return None
        if form.kind == "set":
            return None, sympy.FiniteSet(*values)
        if form.is_list or len(values) != 2 or not (values[1] - values[0]).is_extended_positive:
            return None
        return None, sympy.Interval(*values, form.kind[0] == "(", form.kind[1] == ")")
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
    names = [text for text in form.texts if re.fullmatch(r"[a-zA-Z]|\\(?!pi\b|infty\b)[a-zA-Z]+|[a-zA-Z]\([a-zA-Z]\)", text)]
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
    if "".join(left.text.split()) == "".join(right.text.split()) and not re.search(r"\w\s+\w", left.text + "," + right.text):
        return _scaled(left.unit, right.unit) == 1
    factor = _scaled(left.unit, right.unit)
    first, second = parsed(left.text), parsed(right.text)
    if factor is None or first is None or second is None:
        return False
    return is_zero(first * factor - second)


def _scaled(left: Unit | None, right: Unit | None) -> sympy.Rational | None:
    factor = scale(left, right)
    return None if factor is None else sympy.Rational(factor.numerator, factor.denominator)


def is_zero(value: sympy.Expr) -> bool:
    """Whether an expression is proven to be zero for all values of its variables."""
    if value == 0:
        return True
    if value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        return False
    unknown = {f: sympy.Symbol(f"f{i}") for i, f in enumerate(sorted(value.atoms(AppliedUndef), key=str))}
    value = value.xreplace(unknown).doit()
    if value == 0:
        return True
    symbols = sorted(value.free_symbols, key=str)
    if any(_differs(value.subs(point)) for point in _points(symbols)):
        return False
    for simpler in (sympy.expand, lambda v: sympy.cancel(sympy.together(v)), sympy.simplify, sympy.radsimp, _full):
        if simpler(value) == 0:
            return True
    if not symbols and value.is_algebraic:
        return bool(sympy.minimal_polynomial(value, sympy.Symbol("x")) == sympy.Symbol("x"))
    return False


def _full(value: sympy.Expr) -> sympy.Expr:
    return sympy.simplify(sympy.expand_func(sympy.expand_trig(value.rewrite(sympy.exp))))


def _points(symbols: Sequence[sympy.Symbol]) -> list[dict[sympy.Symbol, sympy.Rational]]:
    if not symbols:
        return [{}]
    count = len(_POINTS)
    return [
        {symbol: sympy.Rational(*_POINTS[(i + shift) % count]) + i // count for i, symbol in enumerate(symbols)}
        for shift in range(count)
    ]


def _differs(value: sympy.Expr) -> bool:
    """Whether a number is shown to be other than zero: sympy gives digits only of what is not cancelled."""
    if value.is_Rational:
        return bool(value != 0)
    shown = value.evalf(_DIGITS, maxn=_MOST_DIGITS)
    return any(part.is_Float and part._prec > 1 and part != 0 for part in shown.as_real_imag())


# LaTeX

_CONFIG = ConversionConfig(interpret_as_mixed_fractions=False, lowercase_symbols=False)
_PLAIN = re.compile(r"(?<![\\a-zA-Z])(pi|sqrt|sin|cos|tan|cot|sec|csc|log|ln|exp|arcsin|arccos|arctan|theta|alpha|beta|infinity)(?![a-zA-Z])")
_APPLIED = "fghFGHPQT"
"""Letters that are functions before a bracket; others are factors."""
_UNREADABLE = re.compile(
    r"['′]|\\prime|[:&?@\"≈]|\d\s+\d|\d\s*_|(?<![\\a-zA-Z])[a-zA-Z]{5,}|\\(?:text|pm|mp|mod|ldots|dots|cdots)\b|\.\s*\.|\\begin\{(?!vmatrix)"
)


def parsed(text: str) -> sympy.Expr | None:
    """An expression as sympy has it, with exact numbers; None where it is not read with certainty."""
    prepared = _prepared(text)
    if prepared is None:
        return None
    try:
        value = _Latex2Sympy(is_real=None, config=_CONFIG).parse(prepared)
    except RecursionError:
        raise
    except Exception:  # the parser raises Exception itself, sympy whatever it meets; neither is an answer then
        return None
    if not isinstance(value, sympy.Expr) or value.atoms(sympy.Float):
        return None
    if not value.atoms(sympy.Sum, sympy.Product):
        value = value.xreplace({sympy.Symbol("i"): sympy.I})
    return value.doit() if value.has(sympy.UnevaluatedExpr) else value


def _prepared(text: str) -> str | None:
    """LaTeX that the parser reads as it is meant; None where that cannot be said."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = _PLAIN.sub(lambda found: f"\\{found[1].replace('infinity', 'infty')} ", text)
    text = text.replace("\\cdotp", "\\cdot").replace("*", "\\cdot ").replace("\\ast", "\\cdot ")
    text = re.sub(r"\\l?vert\b|\\rvert\b", "|", text)
    text = re.sub(r"(\d*)\.(\d*)\\overline\s*\{\s*(\d+)\s*\}", _repeating, text)
    text = _arguments(text)
    if _UNREADABLE.search(text):
        return None
    text = re.sub(r"(?<![\d.])(\d*)\.(\d+)", lambda d: f"(\\frac{{{int(d[1] + d[2])}}}{{1{'0' * len(d[2])}}})", text)
    text = re.sub(r"(?<=\d)\.(?!\d)", "", text)
    text = re.sub(
        r"(?<![\d.}\)\^_a-zA-Z])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}", r"(\1+\\frac{\2}{\3})", text
    )  # a mixed number
    text = re.sub(r"(?<![\^_])(?:\{|\()?\s*(\d+|\(\\frac\{\d+\}\{\d+\}\))\s*\^\\circ\s*(?:\}|\))?", r"(\\frac{\1\\cdot\\pi}{180})", text)
    text = re.sub(r"(?<![\w\\}\)])(\d+)\s*/\s*(\d+)(?=\s*(?:[a-zA-Z]|\\pi|\\sqrt))", r"\\frac{\1}{\2}", text)  # 1/2x is x/2
    text = re.sub(r"(?<![\\a-zA-Z_{])I(?![a-zA-Z])", "I_{1}", text)  # the parser's I is the imaginary unit
    text = re.sub(r"\)\s*(?=[\d(])|(?<=[\d}])\s*(?=\()", lambda m: m[0].rstrip() + "\\cdot ", text)
    text = re.sub(r"(\\(?:sin|cos|tan|cot|sec|csc|sinh|cosh|tanh|log|ln|exp|arcsin|arccos|arctan|max|min|gcd|operatorname)(?:[_^]\{[^{}]*\})?)\\cdot \(", r"\1(", text)
    return re.sub(rf"(?<![\\a-zA-Z])(?![{_APPLIED}])([a-zA-Z])\s*\(", r"\1\\cdot (", text)


def _repeating(found: re.Match[str]) -> str:
    whole, fixed, repeated = found[1] or "0", found[2], found[3]
    under = 10 ** len(fixed) * (10 ** len(repeated) - 1)
    over = int(whole + fixed + repeated) - int(whole + fixed)
    return f"(\\frac{{{over}}}{{{under}}})"


def _arguments(text: str) -> str:
    r"""With braces around what `\frac12`, `\sqrt2`, `x^-1` and `2^(n+1)` take without."""
    piece = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
    text = re.sub(rf"\\frac\s*({piece}|\d|[a-zA-Z]|\\pi)\s*({piece}|\d|[a-zA-Z]|\\pi)", _fraction, text)
    text = re.sub(r"\\sqrt\s*(\d|[a-zA-Z]|\\pi\b)", r"\\sqrt{\1}", text)
    text = re.sub(r"\\sqrt\s*\(((?:[^()]|\([^()]*\))*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"\^\s*\(((?:[^()]|\([^()]*\))*)\)", r"^{\1}", text)
    text = re.sub(r"\^\s*([-+]?\d+|[-+][a-zA-Z])", r"^{\1}", text)
    return re.sub(r"(\\log)_(\d)(?!\d)", r"\1_{\2}", text)


def _fraction(found: re.Match[str]) -> str:
    over, under = (part if part.startswith("{") else f"{{{part}}}" for part in (found[1], found[2]))
    return f"\\frac{over}{under}"
