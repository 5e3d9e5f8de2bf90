"""Counting evaluation outcomes."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.sources import tally, tally_cache
from analysis.statistics.passk import pass_at_k
from harness.errors import HarnessError


def rows(*triples, scorer="arith/1"):
    """(step, problem, accuracies) -> a table; the benchmark is the problem's first part."""
    frame = pd.DataFrame(
        [(step, problem.split("/")[0], problem, a, scorer) for step, problem, hits in triples for a in hits],
        columns=["step", "benchmark", "problem", "accuracy", "scorer"],
    )
    return pa.Table.from_pandas(frame, preserve_index=False)


def test_counts_by_step_and_problem():
    found = tally.count(rows((0, "b/1", [1, 0]), (0, "a/9", [1, 1]), (5, "a/9", [0, 0])))
    assert found.steps == (0, 5)
    assert found.problems == (("a", "a/9"), ("b", "b/1"))
    assert found.n.tolist() == [[2, 2], [2, 0]]
    assert found.correct.tolist() == [[2, 1], [0, 0]]
    assert (found.samples, found.benchmarks, found.scorers) == (2, ("a", "b"), ("arith/1",))


def test_curves_average_problems_then_benchmarks():
    found = tally.count(rows((0, "a/1", [1, 1]), (0, "a/2", [0, 0]), (0, "b/1", [1, 0]), (5, "a/1", [1, 1])))
    assert found.curve(1).to_dict() == {0: 0.5}  # step 5 lacks benchmark b
    assert found.curve(1, "a").to_dict() == {0: 0.5, 5: 1.0}
    assert found.curve(2).to_dict() == {0: 0.75}
    with pytest.raises(HarnessError, match="pass@3"):
        found.curve(3)


def test_equals_the_logged_metrics_of_the_same_run(smoke):
    for run in smoke[:2]:
        found = tally.read(run)
        for k in (1, 16):
            logged = run.metric(f"eval/pass@{k}")
            curve = found.curve(k)
            assert curve.index.tolist() == logged.index.tolist()
            assert curve.to_numpy() == pytest.approx(logged.to_numpy())


def test_scores_are_on_shared_problems_only():
    one = tally.count(rows((1, "a/1", [1, 1]), (1, "a/2", [0, 1]), (1, "b/1", [0, 0]))).at(1)
    two = tally.count(rows((1, "a/2", [0, 0]), (1, "b/1", [1, 1]), (1, "b/2", [1, 1]))).at(1)
    found = tally.shared([[one], [two, two]], 1)
    assert found.problems == (("a", "a/2"), ("b", "b/1"))
    assert [x.tolist() for x in found.values] == [[[0.5, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]
    assert (found.strata.tolist(), found.dropped) == ([0, 1], 2)
    assert tally.shared([[one], [two]], 1, "b").problems == (("b", "b/1"),)
    with pytest.raises(HarnessError, match="share no problem"):
        tally.shared([[one], [tally.count(rows((1, "c/1", [1, 1]))).at(1)]], 1)


@pytest.mark.parametrize("bad", [0.5, np.nan])
def test_an_accuracy_that_is_neither_right_nor_wrong_is_refused(bad):
    with pytest.raises(HarnessError, match="expected 0 or 1"):
        tally.count(rows((0, "a/1", [1, bad])))


def test_a_damaged_file_costs_its_evaluation_and_says_so(smoke, tmp_path):
    folder = tmp_path / "run"
    target = folder / "outcomes" / "eval"
    target.mkdir(parents=True)
    for path in (smoke[0].folder / "outcomes" / "eval").iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    (target / "step_000020.parquet").write_bytes(b"PAR1 torn")
    pq.write_table(rows((30, "a/1", [1])).drop_columns(["accuracy"]), target / "step_000030.parquet")
    found = tally.read(replace(smoke[0], folder=folder))
    assert found.steps == (0, 10, 40)
    assert len(found.notes) == 2
    assert "step_000020" in found.notes[0]
    assert "no column accuracy" in found.notes[1]


def test_a_run_without_outcomes_is_empty(smoke):
    found = tally.read(replace(smoke[0], folder=None))
    assert (found.steps, found.samples, found.benchmarks) == ((), 0, ())
    assert found.curve(1).empty


def test_pass_at_k_of_an_evaluation_follows_the_problems_asked_for():
    evaluation = tally.count(rows((1, "a/1", [1, 0]), (1, "a/2", [1, 1]))).at(1)
    assert evaluation.scores(1, [("a", "a/2"), ("a", "a/1")]) == pytest.approx([1.0, 0.5])
    assert evaluation.scores(2, evaluation.problems) == pytest.approx(pass_at_k(2, [1, 2], 2))


def copied(run, folder):
    target = folder / "outcomes" / "eval"
    target.mkdir(parents=True)
    for path in (run.folder / "outcomes" / "eval").iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return replace(run, folder=folder)


def same(a, b):
    return (a.steps, a.problems, a.scorers) == (b.steps, b.problems, b.scorers) and all(
        np.array_equal(x, y) for x, y in ((a.n, b.n), (a.correct, b.correct))
    )


def test_the_cache_gives_the_same_and_opens_no_outcome_file(smoke, tmp_path, monkeypatch):
    run = copied(smoke[0], tmp_path / "run")
    first = tally_cache.read(run, tmp_path / "cache")
    assert same(first, tally.read(run))
    monkeypatch.setattr(tally, "read", lambda run: pytest.fail("outcome files were opened"))
    assert same(tally_cache.read(run, tmp_path / "cache"), first)


def test_a_changed_or_new_file_is_counted_again(smoke, tmp_path):
    run = copied(smoke[0], tmp_path / "run")
    tally_cache.read(run, tmp_path / "cache")
    table = rows((50, "add_easy/1", [1, 0]))
    pq.write_table(table, run.folder / "outcomes" / "eval" / "step_000050.parquet")
    assert tally_cache.read(run, tmp_path / "cache").steps == (0, 10, 20, 30, 40, 50)
    pq.write_table(rows((50, "add_easy/1", [1, 1, 1])), run.folder / "outcomes" / "eval" / "step_000050.parquet")
    assert tally_cache.read(run, tmp_path / "cache").samples == 3


def test_a_damaged_cache_or_one_that_cannot_be_written_costs_nothing_but_time(smoke, tmp_path):
    run = copied(smoke[0], tmp_path / "run")
    expected = tally_cache.read(run, tmp_path / "cache")
    [entry] = (tmp_path / "cache").rglob("*.parquet")
    entry.write_bytes(b"PAR1 torn")
    assert same(tally_cache.read(run, tmp_path / "cache"), expected)
    (tmp_path / "file").write_text("no folder")
    assert same(tally_cache.read(run, tmp_path / "file"), expected)


def test_a_tally_with_damage_is_not_kept(smoke, tmp_path):
    run = copied(smoke[0], tmp_path / "run")
    (run.folder / "outcomes" / "eval" / "step_000020.parquet").write_bytes(b"PAR1 torn")
    assert tally_cache.read(run, tmp_path / "cache").notes
    assert not list((tmp_path / "cache").rglob("*.parquet"))


KINDS = {
    "accuracy": pa.array(["yes"] * 2), "step": pa.array([None, 30], pa.int32()), "problem": pa.array(["a/1", None]),
    "benchmark": pa.array([1.5, 2.5]),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_column_of_another_kind_or_with_gaps_costs_its_evaluation(smoke, tmp_path, name):
    run = copied(smoke[0], tmp_path)
    table = rows((30, "a/1", [1, 0]))
    table = table.set_column(table.column_names.index(name), name, KINDS[name])
    pq.write_table(table, tmp_path / "outcomes" / "eval" / "step_000030.parquet")
    found = tally.read(run)
    assert found.steps == (0, 10, 20, 40)
    assert len(found.notes) == 1
    assert f"column {name}: its evaluation is left out" in found.notes[0]


def test_bits_that_flipped_anywhere_cost_at_most_their_file(smoke, tmp_path):
    run = copied(smoke[0], tmp_path)
    path = tmp_path / "outcomes" / "eval" / "step_000010.parquet"
    whole, rng = path.read_bytes(), np.random.default_rng(5)
    for _ in range(150):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        with contextlib.suppress(HarnessError):  # an accuracy that is neither right nor wrong is not counted as wrong
            assert {0, 20, 30, 40} <= set(tally.read(run).steps)
