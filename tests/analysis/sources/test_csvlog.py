from __future__ import annotations

import math

import pytest

from analysis.sources import csvlog
from harness.errors import HarnessError
from tests.support.shared import SHARED, needs


def write(tmp_path, text: str, name="log.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@needs("logs/grpo_runs")
def test_logs_that_no_one_here_wrote():
    by_id = {run.id.removeprefix("ch07_02_logs_")[:3]: run for run in csvlog.load(SHARED / "logs/grpo_runs")}
    assert by_id.keys() == {"ch0", "7_3", "7_4", "7_5", "7_6"} | {"ch0"}
    exploded = by_id["7_5"].metric("actor/entropy")  # logged as entropy_avg
    assert (exploded.iloc[0], round(exploded.iloc[-1], 1)) == (1.268579, 11.9)
    repeated = by_id["7_3"]
    assert repeated.history["step"].tolist() == list(range(1, 501))
    assert repeated.metric("tokens_per_sec")[1] == 19.205315  # of the second start
    assert repeated.notes == ("started again at step 1: 5 earlier rows from there on were undone",)
    assert repeated.metric("eval_acc").index.tolist() == list(range(50, 501, 50))
    assert by_id["7_6"].metric("eval_acc").index.tolist() == [1, 50, 100, 149, *range(200, 501, 50)]


def test_a_plain_log(tmp_path):
    (run,) = csvlog.load(write(tmp_path, "\ufeffStep,loss,acc,note\n1,0.5,,a\n2,nan,inf,\n\n3,1e-3,0.25,b\n4,0.1"))
    assert (run.id, run.source, run.state) == ("log", "csv", "unknown")
    assert run.metric("loss").to_dict() == pytest.approx({1: 0.5, 2: math.nan, 3: 1e-3}, nan_ok=True)
    assert run.metric("acc").to_dict() == {2: math.inf, 3: 0.25}
    assert run.nan_steps == {"loss": (2,)}
    assert "log.csv: 1 of 4 rows are damaged and left out" in run.notes
    assert "log.csv: 2 cells of column 'note' hold no number" in run.notes


def test_semicolons_and_other_step_names(tmp_path):
    (run,) = csvlog.load(write(tmp_path, "loss;training/global_step\n0.5;10\n0.4;20\n"))
    assert run.metric("loss").to_dict() == {10: 0.5, 20: 0.4}


def test_a_chart_export_has_a_run_a_column(tmp_path):
    text = (
        '"training/global_step","qae - K=0.4 - actor/entropy","qae - K=0.4 - actor/entropy__MIN",'
        '"qae - K=0.4 - actor/entropy__MAX","mean - actor/entropy","mean - actor/entropy__MIN",'
        '"mean - actor/entropy__MAX"\n'
        '"1","0.5","0.5","0.5","0.4","0.3","0.5"\n"2","0.6","0.6","0.6","",,""\n"3","","","","0.2","0.2","0.2"\n'
    )
    qae, mean = csvlog.load(write(tmp_path, text))
    assert (qae.id, mean.id) == ("qae - K=0.4", "mean")
    assert qae.metrics == ("actor/entropy",)
    assert qae.metric("actor/entropy").to_dict() == {1: 0.5, 2: 0.6}
    assert mean.metric("actor/entropy").to_dict() == {1: 0.4, 3: 0.2}
    assert mean.metric("actor/entropy__MAX").to_dict() == {1: 0.5, 3: 0.2}
    assert any("averages over several steps or runs" in note for note in mean.notes)
    assert qae.notes == ()


def test_exports_of_several_charts_are_put_together(tmp_path):
    write(tmp_path, '"Step","a - loss","b - loss"\n1,1,2\n2,3,4\n', "1.csv")
    write(tmp_path, '"Step","a - acc"\n1,0.3\n2,0.5\n', "2.csv")
    a, b = csvlog.load(tmp_path)
    assert a.metric("loss").to_dict() == {1: 1, 2: 3}
    assert a.metric("acc").to_dict() == {1: 0.3, 2: 0.5}
    assert a.history["step"].tolist() == [1, 2]
    assert not any("undone" in note or "again" in note for note in a.notes)
    assert b.metrics == ("loss",)
    assert any("W&B's own" in note for note in b.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepp,loss\n1,2\n", "no step column.*did you mean stepp"),
        ("step,loss\n1.5,2\n", "step=1.5 is no integer"),
        ("step,loss\n", "holds no number"),
        ("", "no step column"),
        ("step,loss\nx,1\n", "holds no number"),
        ("step,loss\ninf,1\n1e300,2\n", "holds no number"),
    ],
)
def test_errors_name_the_cause(tmp_path, text, message):
    with pytest.raises(HarnessError, match=message):
        csvlog.load(write(tmp_path, text))


def test_absent_files(tmp_path):
    with pytest.raises(HarnessError, match="cannot be read"):
        csvlog.load(tmp_path / "absent.csv")
    with pytest.raises(HarnessError, match=r"no \.csv file"):
        csvlog.load(tmp_path)


def test_rows_of_one_step_are_merged(tmp_path):
    (run,) = csvlog.load(write(tmp_path, "step,loss,acc\n1,1,\n2,2,\n2,,0.5\n3,3,\n"))
    assert run.metric("loss").to_dict() == {1: 1, 2: 2, 3: 3}
    assert run.metric("acc").to_dict() == {2: 0.5}
    assert run.notes == ()
