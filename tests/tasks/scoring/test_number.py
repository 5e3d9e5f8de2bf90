from __future__ import annotations

from fractions import Fraction

import pytest

from harness.tasks.scoring.number import exact


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("070", 70),
        ("-1", -1),
        ("−1", -1),
        ("1{,}000", 1000),
        (r"1\,000", 1000),
        ("1 000", 1000),
        (r"\$1,000.50", Fraction(2001, 2)),
        ("0.1", Fraction(1, 10)),
        (r"-\frac{3}{4}", Fraction(-3, 4)),
        (r"\dfrac12", Fraction(1, 2)),
        ("3/4", Fraction(3, 4)),
        (r"70 \text{ square feet}", 70),
        (r"70\text{ cm}^2", 70),
        ("70%", 70),
        ("a = b = 70", 70),
        ("70 (seventy)", 70),
        (r"336^{\circ}", 336),
        ("{70}", 70),
        ("1 1/2", Fraction(3, 2)),
        (r"-1\frac{1}{2}", Fraction(-3, 2)),
        ("2½", Fraction(5, 2)),
        ("1e3", 1000),
        ("70\u200b", 70),
        ("７０", 70),
        ("10 cm²", 10),
    ],
)
def test_numbers_as_people_write_them(text, value):
    assert exact(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "70 or 71",
        "70, 71",
        "x=3, y=70",
        "3 million",
        "5 pi",
        "2516_8",
        "10^3",
        "(1,2)",
        "70 of 71",
        "1,00",
        "",
        "x",
        "1/0",
        "10!",
        "2**10",
        r"2\frac{-1}{2}",
        "9" * 5000,
        "70 apples and bananas that were distributed evenly among children, so nothing remains",
    ],
)
def test_what_is_no_single_number(text):
    assert exact(text) is None
