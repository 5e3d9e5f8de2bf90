from __future__ import annotations

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis.run import Run
from analysis.sources import outcomes
from harness.errors import HarnessError


def make(tmp_path, id, steps=(1, 2, 10), rows=3):
    folder = tmp_path / id
    for step in steps:
        path = folder / "outcomes" / "train" / f"step_{step:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(
            {
                "step": [step] * rows,
                "group": [f"s{step}p{i}" for i in range(rows)],
                "reward": [float(step + i) for i in range(rows)],
            }
        ).to_parquet(path, index=False)
    return Run(id=id, label=f"arm {id}", source="harness", history=pd.DataFrame({"step": []}), folder=folder)


def test_rows_of_several_runs_in_one_frame(tmp_path):
    found = outcomes.load([make(tmp_path, "a"), make(tmp_path, "b", (1,))], "train")
    assert list(found.frame.columns) == ["run", "step", "group", "reward"]
    assert found.frame.groupby(["run", "step"]).size().to_dict() == {
        ("a", 1): 3,
        ("a", 2): 3,
        ("a", 10): 3,
        ("b", 1): 3,
    }
    assert found.frame.query("run == 'a' and step == 10")["reward"].tolist() == [10.0, 11.0, 12.0]


def test_only_what_is_asked_for_is_read(tmp_path):
    run = make(tmp_path, "a")
    (run.folder / "outcomes/train/step_000002.parquet").write_bytes(b"not opened")
    found = outcomes.load([run], "train", columns=["reward"], at=[10])
    assert list(found.frame.columns) == ["run", "step", "reward"]
    assert set(found.frame["step"]) == {10}
    assert found.damaged == ()
    assert outcomes.steps(run, "train") == (1, 2, 10)


def test_damage_is_counted(tmp_path):
    run = make(tmp_path, "a")
    path = run.folder / "outcomes/train/step_000002.parquet"
    for content in (b"", path.read_bytes()[:-30], b"PAR1" + b"x" * 100 + b"PAR1"):
        path.write_bytes(content)
        found = outcomes.load([run, make(tmp_path, "b", ())], "train")
        assert set(found.frame["step"]) == {1, 10}
        assert len(found.damaged) == 1
        assert "step_000002" in found.damaged[0]
        assert found.absent == ("arm b",)


def test_mistakes_are_named(tmp_path):
    run = make(tmp_path, "a")
    with pytest.raises(HarnessError, match="rewards.*did you mean reward"):
        outcomes.load([run], "train", columns=["rewards"])
    with pytest.raises(HarnessError, match="none of 1 runs has outcomes/eval"):
        outcomes.load([run], "eval")


def test_a_description_of_the_table_that_is_damaged_is_not_read(tmp_path):
    run = make(tmp_path, "a", steps=(1,))
    path = run.folder / "outcomes" / "train" / "step_000001.parquet"
    table = pq.read_table(path).replace_schema_metadata({b"pandas": b"{torn"})
    pq.write_table(table, path)
    found = outcomes.load([run], "train")
    assert (len(found.frame), found.damaged) == (3, ())


def test_majority_vote_counts_ties_by_share_and_ignores_silence():
    rows = pd.DataFrame(
        [
            ("a", "7", 1), ("a", "7", 1), ("a", "8", 0),  # right majority
            ("b", "7", 0), ("b", "8", 1),  # tie of a right and a wrong answer
            ("c", None, 0), ("c", None, 0), ("c", "5", 1),  # one vote only
            ("d", None, 0),  # no vote
        ],
        columns=["problem", "answer", "accuracy"],
    )  # fmt: skip
    assert outcomes.majority_vote(rows).to_dict() == {"a": 1.0, "b": 0.5, "c": 1.0, "d": 0.0}
