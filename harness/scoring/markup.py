"""Text without the marks that models put around an answer: markdown, LaTeX wrappers, end tokens, closing tags."""

from __future__ import annotations

import re

_END_TOKENS = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "<eos>", "</s>",
)  # fmt: skip
_AFTER_END = re.compile("|".join(re.escape(token) for token in _END_TOKENS))
_THOUGHT = "</think>"

_WRAPPED = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mbox|emph|operatorname)\s*\{([^{}]*)\}")
_SPACING = re.compile(r"(?<!\\)\\[,!;:> ]|~|\\quad\b|\\qquad\b|\\displaystyle\b|\\left(?![a-zA-Z])|\\right(?![a-zA-Z])")
_FORMULA = re.compile(r"\$\$?|\\[()\[\]]")
_DEGREE = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|\\degree\b|\\circ\b|°")
_TAG = re.compile(r"</?[a-zA-Z][\w-]*>")
_DASHES = str.maketrans({"−": "-", "–": "-", "﹣": "-", "－": "-", "，": ",", "：": ":", "\u00a0": " ", "\u202f": " "})


def before_end(response: str) -> str:
    """The response up to its first end-of-turn token, and only what follows a closed thought."""
    text = _AFTER_END.split(response, maxsplit=1)[0]
    return text.rsplit(_THOUGHT, 1)[-1]


def boxed(text: str) -> tuple[int, str] | None:
    r"""(position, content) of the last \boxed{...} or \fbox{...} with balanced braces and some content."""
    for match in reversed(list(re.finditer(r"\\(?:boxed|fbox)\s*\{", text))):
        content = _balanced(text, match.end())
        if content is not None and content.strip():
            return match.start(), content
    return None


def _balanced(text: str, start: int) -> str | None:
    depth = 1
    for i in range(start, len(text)):
        if text[i] == "{" and text[i - 1] != "\\":
            depth += 1
        elif text[i] == "}" and text[i - 1] != "\\":
            depth -= 1
            if depth == 0:
                return text[start:i]
    return None


def plain(text: str) -> str:
    r"""The expression itself: `**$\boxed{70}$.**` becomes `70`. What it means is not changed."""
    text = text.translate(_DASHES)
    inner = boxed(text)
    if inner is not None and len(inner[1]) >= len(text) - 40:  # the box is (nearly) all there is
        text = inner[1]
    text = _TAG.sub(" ", text)
    text = re.sub(r"\*\*|__|`|^\s*#+\s|^\s*>\s", "", text).strip().strip("*").strip()
    text = text.replace("\\$", " ").replace("\\%", "%")
    text = _FORMULA.sub(" ", text)
    text = _DEGREE.sub(" ", text)
    text = text.replace("{,}", ",")
    text = re.sub(r"(?<=\d)\\,(?=\d{3})", "", text)
    text = _SPACING.sub(" ", text)
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("\\cfrac", "\\frac")
    for _ in range(3):  # wrappers nest, but not deeply
        text = _WRAPPED.sub(r" \1 ", text)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"[\s.,;:!]+$", "", text).strip(" \"'“”‘’")
