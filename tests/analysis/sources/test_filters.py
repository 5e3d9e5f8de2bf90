from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd
import pytest

from analysis.run import Run
from analysis.sources import filters
from harness.errors import HarnessError


def make(id, K, seed, state="finished", **kwargs):
    config = {"baseline": {"name": "qae" if K else "mean", "K": K}, "seed": seed, "steps": 40, "norm": True}
    return Run(
        id=id,
        label=f"arm {id}",
        source="local",
        history=pd.DataFrame({"step": [1]}),
        config=config,
        state=state,
        created=datetime(2026, 1, int(seed), tzinfo=UTC),
        **kwargs,
    )


RUNS = [
    make("a", 0.4, 1, tags=("x", "y"), group="g"),
    make("b", 0.2, 2, summary={"acc": {"max": 0.5}}),
    make("c", None, 3, state="crashed"),
]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", "abc"),
        ("baseline.K=0.4", "a"),
        ("baseline.K=0.4|0.2", "ab"),
        ("baseline.K!=0.4", "bc"),
        ("baseline.K=null", "c"),
        ("baseline.K>0.2", "a"),
        ("seed>=2, seed<3", "b"),
        ("baseline.name=mean", "c"),
        ("state=finished,seed=2", "b"),
        ("state!=finished|failed", "c"),
        ("tags=x", "a"),
        ("norm=true", "abc"),
        ("name=a|b", "ab"),
        ("created_at>2026-01-01", "bc"),
        ('{"config.baseline.K": {"$in": [0.2, 0.4]}, "state": "finished"}', "ab"),
        ('{"config.baseline.value.K": 0.2}', "b"),
        ('{"$or": [{"config.seed": 1}, {"state": "crashed"}]}', "ac"),
        ('{"$and": [{"config.seed": {"$gt": 1}}, {"config.baseline.K": {"$exists": true}}]}', "b"),
        ('{"$nor": [{"config.seed": 1}]}', "bc"),
        ('{"$not": {"config.seed": 1}}', "bc"),
        ('{"config.seed": {"$not": {"$gt": 1}}}', "a"),
        ('{"summary_metrics.acc.max": {"$gte": 0.5}}', "b"),
        ('{"tags": {"$in": ["y", "z"]}}', "a"),
        ('{"tags": {"$nin": ["y"]}}', "bc"),
        ('{"display_name": {"$regex": "^arm [ab]"}}', "ab"),
        ('{"config.seed": {"$nin": [1, 2]}}', "c"),
        ('{"group": "g"}', "a"),
    ],
)
def test_select(text, ids):
    found = filters.select(RUNS, filters.parse(text) if text else None)
    assert "".join(run.id for run in found) == ids


def test_a_number_is_no_truth_value():
    assert not filters.matches(RUNS[0], {"config.seed": True})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("baseline.K", "write key=value"),
        ("{'a': 1}", "is no JSON"),
        ('{"seed": {"$inn": [1]}}', r"\$inn.*\$in"),
        ('{"$xor": []}', r"\$xor.*\$or"),
        ("state=finishd", "finishd.*finished"),
        ("seed>1|2", "goes with = and != only"),
        ('{"$and": 1}', r"\$and: 1 is no list"),
        ('{"seed": {"$in": 1}}', r"\$in: 1 is no list"),
        ('{"label": {"$regex": "("}}', r"'\(' is no regular expression"),
        ('{"label": {"$regex": 1}}', r"1 is no regular expression"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "is no JSON"),
        ("created_at>yesterday", "is no time"),
        ("seed=7", r"none of 3 runs has seed = 7; they have 1, 2, 3"),
        ("sead=7", "none of 3 runs has the config key 'sead'; did you mean seed"),
        ("seed=1,state=crashed", "meets all of"),
    ],
)
def test_errors_say_what_there_is(text, message):
    with pytest.raises(HarnessError, match=message):
        filters.select(RUNS, filters.parse(text))


def test_only_what_the_server_surely_understands_is_sent():
    condition = {"config.baseline.K": 0.4, "state": "finished", "group": "g", "label": "x"}
    assert filters.for_server(condition) == {"group": "g", "display_name": "x"}
