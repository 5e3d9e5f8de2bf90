"""Whether an expression is zero, proven; what cannot be proven is not."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
from sympy.core.function import AppliedUndef

_DIGITS = 30
"""Of a difference, to show that it is not zero; sympy works with as many more as that takes, up to `_MOST_DIGITS`."""
_MOST_DIGITS = 2000
_POINTS = ((3, 7), (-5, 3), (11, 13), (-17, 19), (23, 5))
"""Numbers to try for the variables."""


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
    if any(_differs(value.subs(point)) for point in points(symbols)):
        return False
    try:
        return _cancels(value, symbols)
    except (NotImplementedError, ValueError, TypeError, sympy.PolynomialError):  # what sympy cannot do is not proven
        return False


def _cancels(value: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> bool:
    for simpler in (sympy.expand, lambda v: sympy.cancel(sympy.together(v)), sympy.simplify, sympy.radsimp, _full):
        if simpler(value) == 0:
            return True
    if not symbols and value.is_algebraic:
        return bool(sympy.minimal_polynomial(value, sympy.Symbol("x")) == sympy.Symbol("x"))
    return False


def _full(value: sympy.Expr) -> sympy.Expr:
    return sympy.simplify(sympy.expand_func(sympy.expand_trig(value.rewrite(sympy.exp))))


def points(symbols: Sequence[sympy.Symbol]) -> list[dict[sympy.Symbol, sympy.Rational]]:
    """Values to try for the variables: fractions of both signs, no two alike."""
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
