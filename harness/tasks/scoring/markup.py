"""Text without the marks that models put around an answer: markdown, LaTeX wrappers, end tokens, closing tags."""

from __future__ import annotations

import re
import string

_END_TOKENS = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "<eos>", "</s>",
)  # fmt: skip
_AFTER_END = re.compile("|".join(re.escape(token) for token in _END_TOKENS))
_THOUGHT = "</think>"
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"(?<!\\)[{}]")

_WRAPPED = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|emph)\s*\{([^{}]*)\}")
_OPERATOR = re.compile(r"\\operatorname\s*\{\s*([a-zA-Z]+)\s*\}")
_SPACING = re.compile(r"(?<!\\)\\[,!;:> ]|~|\\quad\b|\\qquad\b|\\displaystyle\b|\\left(?![a-zA-Z])|\\right(?![a-zA-Z])")
_FORMULA = re.compile(r"\$\$?|(?<!\\)\\[()\[\]]")
_DOLLAR = "\uff04"  # of money, while those around formulas are removed
_DEGREE = re.compile(r"\s*(?:\^\s*\{\s*\\circ\s*\}|\^\s*\\circ\b|\^?\\degree\b|(?<=\d)\\circ\b|°)")
_TAG = re.compile(r"</[a-zA-Z][\w-]*>|(?:(?<=\s)|^)<[a-zA-Z][\w-]*>")  # a<b>c is no tag
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))
_SIGNS = str.maketrans({
    "−": "-", "–": "-", "﹣": "-", "－": "-", "，": ",", "：": ":", "\u00a0": " ", "\u202f": " ", "\u2009": " ",
    "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "",  # of no width
    "×": "\\times ", "·": "\\cdot ", "÷": "/", "∞": "\\infty ", "π": "\\pi ", "²": "^2", "³": "^3", "±": "\\pm ",
    "½": "\\frac{1}{2}", "⅓": "\\frac{1}{3}", "⅔": "\\frac{2}{3}", "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}",
})  # fmt: skip
_ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|\{([^{}]*)\}|(\d+|[a-zA-Z]))")
_POWER = re.compile(r"(?<=[\w)\]}])\s*\*\*\s*(?:(-?\d+)(?!\w)|(?=[\w(]))")


def before_end(response: str) -> str:
    """The response up to its first end-of-turn token, and only what follows a closed thought."""
    text = _AFTER_END.split(response, maxsplit=1)[0]
    return text.rsplit(_THOUGHT, 1)[-1]


def boxed(text: str) -> tuple[int, str] | None:
    r"""(position, content) of the last \boxed{...} or \fbox{...} with balanced braces and some content."""
    commands = {match.end() - 1: match.start() for match in _BOX.finditer(text)}  # by the place of their brace
    found: tuple[int, str] | None = None
    braces: list[int] = []
    for match in _BRACE.finditer(text) if commands else ():  # one pass: a model may open thousands of boxes
        if match[0] == "{":
            braces.append(match.start())
        elif braces:
            brace = braces.pop()
            place = commands.get(brace)
            if place is not None and (found is None or place > found[0]):
                content = text[brace + 1 : match.start()]
                found = (place, content) if content.strip() else found
    return found


def plain(text: str) -> str:
    r"""The expression itself: `**$\boxed{70}$.**` becomes `70`. What it means is not changed.

    Degrees become `^\circ`; signs of money and percent stay; the words of `\text{...}` stand between spaces.
    """
    text = _ROOT.sub(lambda found: f"\\sqrt{{{found[1] or found[2] or found[3]}}}", text.translate(_SIGNS))
    inner = boxed(text)
    if inner is not None and len(_BOX.findall(text)) == 1 and len(inner[1]) >= len(text) - 40:
        text = inner[1]  # the box is (nearly) all there is
    text = _TAG.sub(" ", text)
    text = _POWER.sub(lambda found: f"^{{{found[1]}}}" if found[1] else "^", text)  # the others are bold type
    text = re.sub(r"\*\*|__|`|^\s*#+\s", "", text).strip().strip("*").strip()
    text = text.replace("\\$", _DOLLAR).replace("\\%", "%")
    text = _FORMULA.sub(" ", text)
    text = _DEGREE.sub(r"^\\circ ", text).replace(_DOLLAR, "\\$")
    text = text.replace("{,}", ",")
    text = re.sub(r"(?<=\d)\\,(?=\d{3})", "", text)
    text = re.sub(r"(?<=\d),\s*\\!\s*(?=\d{3})", ",", text)
    text = _SPACING.sub(" ", text)
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("\\cfrac", "\\frac")
    text = _OPERATOR.sub(r"\\\1 ", text)
    for _ in range(3):  # wrappers nest, but not deeply
        text = _WRAPPED.sub(r" \1 ", text)
    text = re.sub(r"\s+", " ", text).strip().rstrip(string.whitespace + ".,;:")
    for left, right in _QUOTES:  # a lone one is a foot, or a derivative
        if len(text) > 1 and text.startswith(left) and text.endswith(right):
            text = text[1:-1].strip()
    return text


def squeezed(text: str) -> str:
    """Without the spaces that mean nothing: those between two letters or digits stay, 12 3 is not 123."""
    return re.sub(r"(?<=\w) +(?=\w)", "\x00", text).replace(" ", "").replace("\x00", " ")
