"""The right answer of a problem, as its file gives it."""

from __future__ import annotations

import ast
import json
import numbers
from collections.abc import Mapping
from typing import Any

from harness.errors import HarnessError
from harness.tasks.scoring.markup import plain
from harness.tasks.scoring.number import canonical, quantity

_KEYS = ("ground_truth", "answer", "target", "expected_answer", "final_answer", "value", "label", "solution")


def given(value: Any) -> str:
    r"""The answer as its file has it: `{"target": "025"}` and `["025"]` become `025`; the answer itself is not touched.

    Raises: HarnessError where there is no answer or more than one.
    """
    value = _unwrapped(value)
    if isinstance(value, bool) or value is None:
        raise HarnessError(f"ground truth {value!r} is no answer")
    if isinstance(value, numbers.Integral):
        return str(int(value))
    text = (repr(float(value)) if isinstance(value, numbers.Real) else str(value)).strip()
    if not plain(text):
        raise HarnessError(f"ground truth {value!r} is empty: give the answer of the problem")
    return text


def shortest(text: str) -> str:
    r"""One text for answers of the same value: `025`, `27.0`, `336^\circ` and `1,000` become `25`, `27`, `336`, `1000`.

    Only a plain whole number is written anew, its unit left out; an equation (`x = 5`) and all else keep their own
    form, without the marks around it.
    """
    number = quantity(text)
    if number is not None and number.value.denominator == 1:
        return canonical(number.value)
    return plain(text)


def _unwrapped(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        value = value.tolist()
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        value = _literal(value)
    if isinstance(value, Mapping):
        found = [value[key] for key in _KEYS if value.get(key) is not None]
        if not found and len(value) == 1:
            found = list(value.values())
        if not found:
            raise HarnessError(f"ground truth with the keys {', '.join(map(str, value))}: none of {', '.join(_KEYS)}")
        return _unwrapped(found[0])
    if isinstance(value, list | tuple):
        if len({str(item) for item in value}) != 1:
            raise HarnessError(f"ground truth {value!r}: expected one answer")
        return _unwrapped(value[0])
    return value


def _literal(text: str) -> Any:
    r"""A mapping or list written as JSON or Python; other text, such as `[0, 1)` or `{1}`, stays text."""
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, Mapping) or (isinstance(value, list) and all(isinstance(v, str) for v in value) and value):
            return value
    return text
