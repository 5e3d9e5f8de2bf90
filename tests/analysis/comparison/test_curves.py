"""Curves over seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.comparison.curves import align


def series(values, first=1):
    return pd.Series(values, index=range(first, first + len(values)))


def test_runs_are_aligned_on_the_training_step():
    found = align([series([1.0, 2.0]), series([5.0, 6.0], first=2)], ["a", "b"])
    assert found.steps.tolist() == [1, 2, 3]
    assert np.array_equal(found.values, [[1, 2, np.nan], [np.nan, 5, 6]], equal_nan=True)


def test_bands_need_three_seeds_at_the_step_and_are_students_t():
    three = align([series([1.0, 2.0, 4.0]), series([2.0, 2.5]), series([4.0, 3.0])], "abc")
    mean, low, high = three.band()
    assert np.isnan(mean[2])
    assert np.isnan(low[2])
    expected = stats.t.interval(0.95, 2, loc=7 / 3, scale=stats.sem([1, 2, 4]))
    assert (low[0], high[0]) == pytest.approx(expected)
    assert not align([series([1.0]), series([2.0])], "ab").has_band


def test_infinite_values_are_gaps():
    found = align([series([np.inf, 1.0]), series([1.0, 1.0]), series([2.0, 1.0]), series([3.0, 1.0])], "abcd")
    mean, _, _ = found.band()
    assert mean[0] == pytest.approx(2.0)
    assert found.mean()[0] == pytest.approx(2.0)


def test_late_means_look_at_each_runs_own_end():
    found = align([series(np.arange(100.0)), series(np.arange(40.0))], "ab")
    assert found.late_means() == pytest.approx([np.arange(75, 100).mean(), np.arange(30, 40).mean()])
    assert np.isnan(align([series([np.nan])], "a").late_means()[0])
