from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.multiple import adjusted, holm
from harness.errors import HarnessError


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).size == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_equals_the_step_down_procedure(p):
    found = holm(p)
    for level in (0.01, 0.05, 0.2):
        rejected = set()
        for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
            if p[i] * (len(p) - rank) > level:
                break
            rejected.add(i)
        assert rejected == {i for i in range(len(p)) if found[i] <= level}


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(HarnessError, match="between 0 and 1"):
        holm([0.1, 1.2])


def test_comparisons_without_a_test_do_not_count():
    assert adjusted([0.01, None, 0.04]) == [pytest.approx(0.02), None, pytest.approx(0.04)]
    assert adjusted([None]) == [None]
