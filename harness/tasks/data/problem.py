"""One problem, and how it is found in a row of anybody's file."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError
from harness.tasks.data.prompt import unwrap
from harness.tasks.scoring.truth import given

_TEXT_KEYS = ("problem", "question", "raw_problem", "Problem", "prompt", "instruction")
_ANSWER_KEYS = ("expected_answer", "answer", "final_answer", "Answer", "ground_truth", "target", "label")

_REPEATED = 65_536
"""Texts whose reading is remembered: the published DAPO-Math-17k has each of its problems 100 times."""

_TYPESETTING = re.compile(
    r"\\(?:text|textit|textbf|textrm|emph|mathrm|mathit|mathbf|operatorname|displaystyle|left|right|dots|ldots|cdots)"
    r"(?![a-zA-Z])"
)
_KEPT = re.compile(r"[^a-z0-9+\-*/=<>^|()!%\u00c0-\uffff]")
_DASHES = str.maketrans({"−": "-", "–": "-", "—": "-", "“": "", "”": "", "‘": "", "’": "", "…": ""})


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with its answer."""

    text: str
    """Without any prompt around it."""
    answer: str
    """As the file gives it: never altered, since what a scorer leaves out of a truth is lost to every later one."""

    @property
    def id(self) -> str:
        """Stable: made of the text alone, whatever its typesetting, its place in the file and the file's format."""
        return _identity(self.text)


@functools.lru_cache(maxsize=_REPEATED)
def _identity(text: str) -> str:
    return "p" + hashlib.sha256(squeezed(text).encode()).hexdigest()[:10]


def squeezed(text: str) -> str:
    """Letters, digits and operators alone: equal for copies of a problem that differ only in their typesetting."""
    return _KEPT.sub("", _TYPESETTING.sub("", text.translate(_DASHES)).lower())


def read(row: Mapping[str, Any]) -> Problem:
    """The problem of a row: of NeMo, simpleRL, OpenAI or verl format, or any with the usual column names.

    Raises: HarnessError naming the columns that there are.
    """
    text = _text(row)
    if not text:
        raise HarnessError(f"no problem text in the columns {', '.join(map(str, row))}: expected {_TEXT_KEYS[0]}")
    answer = _answer(row)
    return Problem(text, _given(answer) if isinstance(answer, str) else given(answer))


_given = functools.lru_cache(maxsize=_REPEATED)(given)
_unwrapped = functools.lru_cache(maxsize=_REPEATED)(unwrap)


def _text(row: Mapping[str, Any]) -> str:
    extra = row.get("extra_info")
    for place in (extra if isinstance(extra, Mapping) else {}, row):
        for key in _TEXT_KEYS:
            value = place.get(key)
            if isinstance(value, str) and value.strip():
                return _unwrapped(value)
    return _unwrapped(_last_message(row.get("prompt")))


def _last_message(prompt: Any) -> str:
    """Content of the last user message of a chat."""
    messages = prompt.tolist() if hasattr(prompt, "tolist") else prompt
    if not isinstance(messages, list):
        return ""
    user = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
    return str(user[-1].get("content") or "") if user else ""


def _answer(row: Mapping[str, Any]) -> Any:
    reward = row.get("reward_model")
    if isinstance(reward, Mapping) and reward.get("ground_truth") is not None:
        return reward["ground_truth"]
    for key in _ANSWER_KEYS:
        value = row.get(key)
        if value is not None:
            return value.rsplit("####", 1)[-1] if isinstance(value, str) else value
    raise HarnessError(f"no answer in the columns {', '.join(map(str, row))}: expected {_ANSWER_KEYS[1]}")
