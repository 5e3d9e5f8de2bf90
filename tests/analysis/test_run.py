from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from analysis.run import Run, lookup, tidy
from harness.errors import HarnessError


def make(id: str = "a", **kwargs) -> Run:
    history = pd.DataFrame(
        {
            "step": np.arange(1, 5),
            "actor/entropy_loss": [1.0, np.nan, np.inf, 0.5],
            "val-aux/arith/acc/mean@4": [np.nan, 0.25, np.nan, 0.75],
        }
    )
    kwargs.setdefault("config", {"baseline": {"name": "qae", "K": 0.4}, "seed": 1})
    return Run(
        id=id,
        label=f"QAE {id}",
        source="local",
        history=history,
        nan_steps={"actor/entropy_loss": (2,)},
        **kwargs,
    )


def test_real_nan_and_inf_stay_and_unlogged_steps_go():
    series = make().metric("actor/entropy")
    assert list(series.index) == [1, 2, 3, 4]
    assert math.isnan(series[2])
    assert series[3] == math.inf
    assert list(make().metric("val-core/arith/acc/mean@4").index) == [2, 4]


def test_finite_leaves_out_nan_and_inf():
    assert list(make().metric("actor/entropy", finite=True).index) == [1, 4]


def test_missing_metric_names_the_nearest():
    with pytest.raises(HarnessError, match="actor/entropi.*did you mean actor/entropy_loss"):
        make().metric("actor/entropi")


def test_missing_config_key_names_the_nearest():
    assert make().get("baseline.K") == 0.4
    assert make().get("baseline.mask", None) is None
    with pytest.raises(HarnessError, match=r"baseline\.k.*baseline\.K"):
        make().get("baseline.k")


def test_lookup_finds_keys_with_dots_and_list_items():
    assert lookup({"a.b": {"c": 1}}, "a.b.c") == 1
    assert lookup({"a": [{"b": 2}]}, "a.0.b") == 2
    assert lookup({"a": 1}, "a.b", "no") == "no"


def test_tidy_has_one_row_a_logged_value():
    frame = tidy(
        [make("a"), make("b", config={"seed": 2})],
        ["actor/entropy", "val-aux/arith/acc/mean@4"],
        by=["baseline.K", "seed", "state"],
    )
    assert list(frame.columns) == ["run", "label", "step", "metric", "value", "baseline.K", "seed", "state"]
    assert len(frame) == 2 * (4 + 2)
    of_b = frame[frame["run"] == "b"]
    assert of_b["baseline.K"].isna().all()
    assert set(of_b["seed"]) == {2}


def test_tidy_never_gives_an_empty_plot():
    with pytest.raises(HarnessError, match="none of 1 runs has the metric 'eval/pass@1'"):
        tidy([make()], ["eval/pass@1"])
