from __future__ import annotations

import json
import math

import pytest

from analysis.sources import jsonlog, store
from harness.errors import HarnessError
from tests.support import wandb_log as log

ID = "00000000aa"


def make(root, id=ID, *, spec=None, lines=(), done=False):
    folder = root / id
    folder.mkdir(parents=True)
    content = {
        "schema": 1,
        "id": id,
        "label": "QAE K=0.4, tiny",
        "config": {"baseline": {"K": 0.4}, "steps": 5},
        "verl": {"trainer": {"nnodes": 1}},
        "provenance": {"git_sha": "abc", "created": "2026-01-01T00:00:00+00:00"},
    }
    (folder / "spec.json").write_text(json.dumps({**content, **(spec or {})}))
    if lines:
        (folder / "metrics.jsonl").write_text("".join(lines))
    if done:
        (folder / "done.json").write_text('{"step": 5}')
    return folder


def line(step, attempt=1, **metrics):
    metrics["training/global_step"] = step
    return json.dumps({"step": step, "time": 1e9 + step, "attempt": attempt, "metrics": metrics}) + "\n"


def test_a_run_is_read_with_its_spec_and_metrics(tmp_path):
    lines = [line(0, **{"eval/pass@1": 0.1}), *(line(step, loss=float(step)) for step in range(1, 6))]
    folder = make(tmp_path, lines=lines, done=True)
    run = store.load_run(folder)
    assert (run.id, run.label, run.source, run.state) == (ID, "QAE K=0.4, tiny", "harness", "finished")
    assert run.history["step"].tolist() == [0, 1, 2, 3, 4, 5]
    assert run.metric("eval/pass@1").to_dict() == {0: 0.1}
    assert run.get("baseline.K") == 0.4
    assert run.get("verl.trainer.nnodes") == 1
    assert run.get("provenance.git_sha") == "abc"
    assert run.summary["loss"] == 5.0
    assert run.created.year == 2026
    assert run.notes == ()


def test_a_folder_that_lost_its_spec_is_listed(tmp_path):
    make(tmp_path, lines=[line(1, loss=1.0)])
    (tmp_path / "00000000cc").mkdir()
    lost = {run.id: run for run in store.load_store(tmp_path)}["00000000cc"]
    assert lost.notes == ("no spec.json: restore it, or remove the folder",)
    assert len(lost.history) == 0


def test_later_attempts_win_and_torn_and_damaged_lines_are_counted(tmp_path):
    lines = [
        line(1, loss=1.0),
        line(2, loss=math.nan),
        line(3, loss=1.0),
        '{"step": 4, "ti\n',
        "[]\n",
        line(2, attempt=2, loss=2.0),
        line(3, attempt=2, loss=math.nan),
        '{"step": 4,',
    ]
    run = store.load_run(make(tmp_path, lines=lines))
    loss = run.metric("loss")
    assert loss.index.tolist() == [1, 2, 3]
    assert loss.tolist()[:2] == [1.0, 2.0]
    assert math.isnan(loss[3])
    assert run.nan_steps == {"loss": (3,)}
    assert "resumed at step 2: 2 earlier rows from there on were undone" in run.notes
    assert any("2 of 7 records lost" in note for note in run.notes)
    assert any("ends within a line" in note for note in run.notes)


def test_a_growing_metrics_file_is_read_on(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    whole = "".join(line(step, loss=float(step), **({"eval": 1.0} if step > 50 else {})) for step in range(1, 101))
    previous = None
    for size in [*range(0, len(whole), 997), len(whole)]:
        path.write_text(whole[:size])
        previous = jsonlog.read(path, previous)
    fresh = jsonlog.read(path)
    assert previous.rows == 100
    assert {k: v.tolist() for k, v in previous.columns.items()}.__repr__() == (
        {k: v.tolist() for k, v in fresh.columns.items()}.__repr__()
    )
    seen = []
    monkeypatch.setattr(jsonlog, "_row", lambda text, original=jsonlog._row: seen.append(text) or original(text))
    path.write_text(whole + line(101, loss=0.0))
    assert jsonlog.read(path, previous).rows == 101
    assert len(seen) == 1


def test_the_cache_serves_metrics_files_too(tmp_path, monkeypatch):
    folder = make(tmp_path, lines=[line(1, loss=1.0), line(2, loss=math.nan)])
    first = store.load_run(folder, cached=tmp_path / "cache")
    monkeypatch.setattr(jsonlog, "_row", lambda _: pytest.fail("parsed again"))
    again = store.load_run(folder, cached=tmp_path / "cache")
    assert again.history.equals(first.history)
    assert again.nan_steps == first.nan_steps == {"loss": (2,)}


def test_curves_from_wandb_files_and_the_other_log_where_one_is_absent(tmp_path):
    folder = make(tmp_path, lines=[line(1, loss=1.0)])
    run = store.load_run(folder, history="local")
    assert run.source == "harness"
    assert "no W&B file: read from the other log" in run.notes
    log.write(folder, ID, [log.run(ID), *log.rows(1, 5, loss=2.0), log.leave()])
    log.write(folder, "stray", [log.run("stray", 1), *log.rows(1, 5, loss=3.0), log.leave()])
    run = store.load_run(folder, history="local")
    assert run.source == "local"
    assert run.metric("loss").tolist() == [2.0] * 5
    assert run.label == "QAE K=0.4, tiny"
    assert "W&B run stray in this folder is left out" in run.notes
    (folder / "metrics.jsonl").unlink()
    run = store.load_run(folder)
    assert run.metric("loss").tolist() == [2.0] * 5
    assert "no metrics.jsonl: read from the other log" in run.notes


def test_both_logs_of_one_run_agree(tmp_path):
    lines = [line(step, loss=1 / step, **({"eval": 0.5} if step % 2 else {})) for step in range(1, 6)]
    folder = make(tmp_path, lines=lines)
    records = [
        log.history({**json.loads(text)["metrics"], "_step": step, "_timestamp": 1e9 + step})
        for step, text in enumerate(lines, 1)
    ]
    log.write(folder, ID, [log.run(ID), *records])
    harness, local = (store.load_run(folder, history=kind) for kind in ("harness", "local"))
    assert harness.history.sort_index(axis=1).equals(local.history.sort_index(axis=1))


def test_a_sweep_lists_runs_in_grid_order_and_what_is_missing(tmp_path):
    make(tmp_path, "00000000bb", lines=[line(1, loss=1.0)])
    make(tmp_path, "00000000aa")
    sweep = {
        "sweep": "smoke",
        "question": "?",
        "compare": {"against": "mean"},
        "points": [
            {"id": "00000000bb", "label": "b"},
            {"id": "00000000bb", "label": "twin"},
            {"id": "00000000aa", "label": "a"},
            {"id": "00000000cc", "label": "c"},
        ],
    }
    (tmp_path / "_sweeps").mkdir()
    (tmp_path / "_sweeps" / "smoke.json").write_text(json.dumps(sweep))
    found = store.load_sweep("smoke", tmp_path)
    assert [run.id for run in found.runs] == ["00000000bb", "00000000aa"]
    assert found.missing == ("c",)
    assert found.compare == {"against": "mean"}
    assert {run.group for run in found.runs} == {"smoke"}
    assert found.runs[1].notes == ("nothing was logged yet",)
    assert [run.id for run in store.load_sweep(["00000000a"], tmp_path).runs] == ["00000000aa"]
    assert len(store.load_store(tmp_path)) == 2
    with pytest.raises(HarnessError, match="smok.*smoke"):
        store.load_sweep("smok", tmp_path)


def test_damage_names_the_file(tmp_path):
    folder = make(tmp_path)
    (folder / "spec.json").write_text('{"id": 1')
    with pytest.raises(HarnessError, match=r"spec\.json is damaged"):
        store.load_run(folder)
    with pytest.raises(HarnessError, match="no run in"):
        store.load_store(tmp_path / "empty")
    with pytest.raises(HarnessError, match=r"is no run folder.*00000000aa"):
        store.load_run(tmp_path / "00000000ab")


def test_a_metrics_file_that_was_mended_is_read_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    good = [line(step, loss=float(step)) for step in range(1, 202)]
    path.write_text("".join([good[0], "x" + good[1][1:], *good[2:200]]))
    before = jsonlog.read(path)
    assert before.losses.records == 1
    path.write_text("".join([good[0], good[1], *good[2:]]))
    assert jsonlog.read(path, before).columns["loss"].tolist() == [float(step) for step in range(1, 202)]


BROKEN = [
    '{"step": NaN, "metrics": {"loss": 9}}', '{"step": 1e999, "metrics": {"loss": 9}}', '{"step": 1.5, "metrics": {}}',
    '{"step": 1e300, "metrics": {"loss": 9}}', '{"step": 2, "attempt": Infinity, "metrics": {"loss": 9}}',
    "[" * 100_000 + "]" * 100_000, '{"step": %s, "metrics": {"loss": 9}}' % 10**400,
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_a_line_whose_step_is_none_is_a_damaged_line(tmp_path, broken):
    run = store.load_run(make(tmp_path, lines=[line(1, loss=1.0), broken + "\n", line(2, loss=2.0)]))
    assert run.metric("loss").to_dict() == {1: 1.0, 2: 2.0}
    assert any("1 of 3 records lost" in note for note in run.notes)


def test_an_integer_beyond_the_largest_float_is_infinite(tmp_path):
    run = store.load_run(make(tmp_path, lines=[line(1, loss=10**400), line(2, loss=-(10**400)), line(3, loss=3)]))
    assert run.metric("loss").tolist() == [math.inf, -math.inf, 3.0]


@pytest.mark.parametrize("spec", [{"provenance": [1]}, {"provenance": {"versions": "x"}}, {"verl": "x"}])
def test_parts_of_a_spec_of_another_kind_are_damage(tmp_path, spec):
    with pytest.raises(HarnessError, match=r"spec\.json is damaged \((provenance|versions|verl) is no mapping"):
        store.load_run(make(tmp_path, spec=spec))
