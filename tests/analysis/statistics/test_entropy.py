"""The verdicts on synthetic curves of known onset and on real training logs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.sources import csvlog
from analysis.statistics.entropy import Rules, judge, running_median
from harness.errors import HarnessError
from tests.support.shared import SHARED, needs

STEPS = np.arange(1, 201)


def noisy(curve, seed=0, level=0.03):
    return curve * np.exp(np.random.default_rng(seed).normal(0, level, len(curve)))


def test_a_level_curve_is_steady():
    found = judge(STEPS, noisy(np.full(200, 0.6)))
    assert (found.verdict, found.began, found.alarming) == ("steady", None, False)
    assert found.early == pytest.approx(0.6, rel=0.05)


def test_collapse_begins_where_the_curve_falls():
    curve = np.where(STEPS < 80, 0.6, 0.05)
    found = judge(STEPS, noisy(curve))
    assert found.verdict == "collapsed"
    assert abs(found.began - 80) <= 2
    assert found.ongoing
    assert "step" in found.text


def test_explosion_begins_where_the_curve_rises_and_may_be_over():
    curve = np.where((STEPS >= 120) & (STEPS < 160), 5.0, 0.5)
    found = judge(STEPS, noisy(curve))
    assert found.verdict == "exploded"
    assert abs(found.began - 120) <= 2
    assert not found.ongoing
    assert judge(STEPS[:150], noisy(curve)[:150]).ongoing


def test_what_lasts_wins_over_what_is_over():
    curve = np.where((STEPS >= 60) & (STEPS < 90), 5.0, np.where(STEPS >= 150, 0.01, 0.5))
    found = judge(STEPS, noisy(curve))
    assert (found.verdict, found.ongoing) == ("collapsed", True)
    assert abs(found.began - 150) <= 2


def test_a_single_spike_is_a_spike_and_no_explosion():
    curve = np.full(200, 0.5)
    curve[100] = 9.0
    found = judge(STEPS, curve)
    assert found.verdict == "steady"
    assert found.spikes == (101,)


def test_slopes_warn_before_the_levels_do():
    falling = judge(STEPS, np.concatenate((np.full(150, 0.6), np.linspace(0.6, 0.25, 50))))
    assert (falling.verdict, falling.began) == ("falling", 151)
    assert falling.change < -0.3
    rising = judge(STEPS, np.concatenate((np.full(150, 0.6), np.linspace(0.6, 1.4, 50))))
    assert rising.verdict == "rising"
    assert not rising.alarming


def test_a_slow_decline_is_falling_once_half_is_lost():
    found = judge(STEPS, np.linspace(1.0, 0.42, 200))
    assert (found.verdict, found.alarming) == ("falling", False)
    assert abs(found.began - 177) <= 2  # where a line from 1.0 to 0.42 reaches half of its early level of 0.97
    back = judge(STEPS, np.concatenate((np.linspace(1.0, 0.4, 100), np.linspace(0.4, 0.9, 100))))
    assert back.verdict == "steady"
    assert judge(STEPS, np.linspace(0.5, 1.4, 200)).verdict == "rising"


def test_the_floor_does_not_condemn_a_model_that_was_always_low():
    assert judge(STEPS, noisy(np.full(200, 0.06))).verdict == "steady"
    assert judge(STEPS, np.where(STEPS < 100, 0.12, 0.045)).verdict == "collapsed"


def test_not_a_number_at_the_end_is_divergence_and_elsewhere_a_gap():
    curve = np.full(200, 0.5)
    curve[[4, 5]] = np.nan, np.inf
    assert judge(STEPS, curve).verdict == "steady"
    curve[190:] = np.nan
    assert (judge(STEPS, curve).verdict, judge(STEPS, curve).began) == ("diverged", 191)
    assert judge(STEPS, np.full(200, np.nan)).began == 1


def test_few_values_are_not_judged():
    assert judge(STEPS[:9], np.full(9, 0.5)).verdict == "short"
    assert judge([], []).verdict == "short"


def test_running_median_equals_pandas():
    x = np.random.default_rng(0).random(50)
    expected = pd.Series(x).rolling(5, center=True, min_periods=3).median()
    assert running_median(x, 5) == pytest.approx(expected.to_numpy())


@pytest.mark.parametrize(
    "call", [lambda: judge([1, 1], [0.5, 0.5]), lambda: judge([1], [0.5, 0.5]), lambda: Rules(explosion=0.5)]
)
def test_refuses(call):
    with pytest.raises(HarnessError):
        call()


@needs("logs/grpo_runs")
@pytest.mark.parametrize(
    ("name", "verdict"), [("7_5_plus_kl", "exploded"), ("7_3_plus_tracking", "exploded"), ("7_4_plus_clip", "steady")]
)
def test_real_training_logs(name, verdict):
    [path] = (SHARED / "logs/grpo_runs").glob(f"*{name}*.csv")
    [run] = csvlog.load(path)
    series = run.metric("actor/entropy")
    found = judge(series.index, series)
    assert found.verdict == verdict
    if name.startswith("7_5"):  # from 1.27 at step 1 to 11.9, the logarithm of the vocabulary
        assert 40 <= found.began <= 80
        assert found.last == pytest.approx(11.9, abs=0.1)
