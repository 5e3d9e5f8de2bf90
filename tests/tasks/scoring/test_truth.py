from __future__ import annotations

import numpy as np
import pytest

from harness.errors import HarnessError
from harness.tasks.scoring.truth import given, shortest


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("025", "025"),
        (27.0, "27.0"),
        (np.float64(27.0), "27.0"),
        (3159, "3159"),
        ("-1", "-1"),
        (r"336^\circ", r"336^\circ"),
        ({"target": "70"}, "70"),
        ("{'ground_truth': '70', 'style': 'rule'}", "70"),
        ('["34"]', "34"),
        (np.array(["34"]), "34"),
        (" 1,000 ", "1,000"),
        (r"$\frac{3}{7}$", r"$\frac{3}{7}$"),
        ("[0,1)", "[0,1)"),
        (r"\text{Evelyn}", r"\text{Evelyn}"),
        ("2x-y+3z+8=0", "2x-y+3z+8=0"),
        ("3R^2", "3R^2"),
    ],
)
def test_a_truth_is_what_its_file_says(raw, text):
    assert given(raw) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("025", "25"),
        ("27.0", "27"),
        ("-1", "-1"),
        (r"336^\circ", "336"),
        ("1,000", "1000"),
        (r"$\frac{3}{7}$", r"\frac{3}{7}"),
        ("0.5", "0.5"),
        ("2x-y+3z+8=0", "2x-y+3z+8=0"),
        ("x = 5", "x = 5"),
        ("3R^2", "3R^2"),
        ("5xy", "5xy"),
    ],
)
def test_only_plain_whole_numbers_have_another_shortest_form(raw, text):
    assert shortest(raw) == text


@pytest.mark.parametrize("raw", [None, "", "  ", True, {"style": "rule", "split": "x"}, ["1", "2"]])
def test_no_answer_is_an_error(raw):
    with pytest.raises(HarnessError, match="ground truth"):
        given(raw)
