from __future__ import annotations

import numpy as np
import pytest

from harness.errors import HarnessError
from harness.tasks.scoring.truth import normalise


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("025", "25"),
        (27.0, "27"),
        (np.float64(27.0), "27"),
        (3159, "3159"),
        ("-1", "-1"),
        (r"336^\circ", "336"),
        ({"target": "70"}, "70"),
        ("{'ground_truth': '70', 'style': 'rule'}", "70"),
        ('["34"]', "34"),
        (np.array(["34"]), "34"),
        ("1,000", "1000"),
        (r"$\frac{3}{7}$", r"\frac{3}{7}"),
        ("0.5", "0.5"),
        ("[0,1)", "[0,1)"),
        (r"\text{Evelyn}", "Evelyn"),
    ],
)
def test_one_shape(raw, text):
    assert normalise(raw) == text


@pytest.mark.parametrize("raw", [None, "", "  ", True, {"style": "rule", "split": "x"}, ["1", "2"]])
def test_no_answer_is_an_error(raw):
    with pytest.raises(HarnessError, match="ground truth"):
        normalise(raw)
