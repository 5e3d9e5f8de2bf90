"""One expression in LaTeX or plain text as sympy has it, with exact numbers.

The parser is that of math-verify (latex2sympy2_extended). Left alone it loses meaning: `2(3)` and `12 3` are sums to
it, `52_8` is 52, `5t` is 5 (a unit), R is r, I is the imaginary unit, f' is f, 3:2 is 1.5. So the text is prepared
first, and what could be read in two ways is not read.
"""

from __future__ import annotations

import re

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy

_CONFIG = ConversionConfig(interpret_as_mixed_fractions=False, lowercase_symbols=False)
_TRIGONOMETRY = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc"
_PLAIN = re.compile(rf"(?<![\\a-zA-Z])(pi|sqrt|{_TRIGONOMETRY}|log|ln|exp|theta|alpha|beta|infinity)(?![a-zA-Z])")
"""Commands without their backslash."""
_CALL = re.compile(rf"(\\(?:{_TRIGONOMETRY}|log|ln|exp|max|min|gcd|lcm)\s*(?:[_^]\{{[^{{}}]*\}})?)\\cdot \(")
_APPLIED = "fghFGHPQT"
"""Letters that are functions before a bracket; others are factors."""
_UNREADABLE = re.compile(
    r"['′]|\\prime|[:&?@\"≈]|\d\s+\d|\d\s*_|(?<![\\a-zA-Z])[a-zA-Z]{5,}|\\(?:text|pm|mp|mod|ldots|dots|cdots)\b"
    r"|\.\s*\.|\\begin\{(?!vmatrix)"
)
_PIECE = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_ROUND = r"\(((?:[^()]|\([^()]*\))*)\)"


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
    if not value.atoms(sympy.Sum, sympy.Product):  # whose index may be i
        value = value.xreplace({sympy.Symbol("i"): sympy.I})
    return value.doit() if value.has(sympy.UnevaluatedExpr) else value


def _prepared(text: str) -> str | None:
    """LaTeX that the parser reads as it is meant; None where that cannot be said."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = _PLAIN.sub(lambda found: f"\\{found[1].replace('infinity', 'infty')} ", text)
    text = re.sub(r"\\cdotp|\\ast\b|\*", r"\\cdot ", text)
    text = re.sub(r"\\l?vert\b|\\rvert\b", "|", text)
    text = re.sub(r"(\d*)\.(\d*)\\overline\s*\{\s*(\d+)\s*\}", _repeating, text)
    text = _arguments(text)
    if _UNREADABLE.search(text):
        return None
    text = re.sub(r"(?<![\d.])(\d*)\.(\d+)", lambda d: f"(\\frac{{{int(d[1] + d[2])}}}{{1{'0' * len(d[2])}}})", text)
    text = re.sub(r"(?<=\d)\.(?!\d)", "", text)
    # 1\frac{1}{2} is a mixed number, 1/2x is x/2, 30^\circ an angle, 2(3) a product
    text = re.sub(r"(?<![\d.})^_a-zA-Z])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}", r"(\1+\\frac{\2}{\3})", text)
    text = re.sub(r"(?<![\w\\})])(\d+)\s*/\s*(\d+)(?=\s*(?:[a-zA-Z]|\\pi|\\sqrt))", r"\\frac{\1}{\2}", text)
    number = r"(?:\{|\()?\s*(\d+|\(\\frac\{\d+\}\{\d+\}\))\s*\^\\circ\s*(?:\}|\))?"
    text = re.sub(rf"(?<![\^_]){number}", r"(\\frac{\1\\cdot\\pi}{180})", text)
    text = re.sub(r"(?<![\\a-zA-Z_{])I(?![a-zA-Z])", r"\\mathcal{I}", text)
    text = re.sub(r"\)\s*(?=[\d(])|(?<=[\d}])\s*(?=\()", lambda found: found[0].rstrip() + "\\cdot ", text)
    text = _CALL.sub(r"\1(", text)
    return re.sub(rf"(?<![\\a-zA-Z])(?![{_APPLIED}])([a-zA-Z])\s*\(", r"\1\\cdot (", text)


def _repeating(found: re.Match[str]) -> str:
    whole, fixed, repeated = found[1] or "0", found[2], found[3]
    under = 10 ** len(fixed) * (10 ** len(repeated) - 1)
    over = int(whole + fixed + repeated) - int(whole + fixed)
    return f"(\\frac{{{over}}}{{{under}}})"


def _arguments(text: str) -> str:
    r"""With braces around what `\frac12`, `\sqrt2`, `x^-1` and `2^(n+1)` take without."""
    text = re.sub(r"\\frac\s*(\d|[a-zA-Z]|\\pi\b)", r"\\frac{\1}", text)
    text = re.sub(rf"(\\frac\s*{_PIECE})\s*(\d|[a-zA-Z]|\\pi\b)", r"\1{\2}", text)
    text = re.sub(r"\\sqrt\s*(\d|[a-zA-Z]|\\pi\b)", r"\\sqrt{\1}", text)
    text = re.sub(rf"\\sqrt\s*{_ROUND}", r"\\sqrt{\1}", text)
    text = re.sub(rf"\^\s*{_ROUND}", r"^{\1}", text)
    text = re.sub(r"\^\s*([-+]?\d+|[-+][a-zA-Z])", r"^{\1}", text)
    return re.sub(r"(\\log)_(\d)(?!\d)", r"\1_{\2}", text)
