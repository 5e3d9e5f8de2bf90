"""One line of `harness doctor`: what was looked at, whether it is in order, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, FAILURE = "ok", "warning", "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line."""

    level: str
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.level:<8} {self.subject:<14} {self.text}" + (f": {self.remedy}" if self.remedy else "")
