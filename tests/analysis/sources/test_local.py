from __future__ import annotations

import math
import os

import pytest

from analysis.sources import cache, local, wandbfile
from harness.errors import HarnessError
from tests.support import wandb_log as log
from tests.support.shared import SHARED, needs

NOW = 2_000_000_000.0


@needs("wandb_runs")
def test_runs_of_four_sdk_versions():
    runs = local.load(SHARED / "wandb_runs")
    assert len(runs) == 8
    for run in runs:
        entropy = run.metric("actor/entropy")
        assert run.history["step"].tolist() == list(range(1, 121))
        assert math.isnan(entropy[5])
        assert entropy[6] == math.inf
        assert run.nan_steps == {"actor/entropy": (5,)}
        accuracy = run.metric("val-core/arith/acc/mean@4")
        assert (len(accuracy), accuracy.iloc[-1]) == (6, pytest.approx(0.6))
        assert run.get("baseline.K") == 0.4
        assert "_wandb" not in run.config
        assert run.summary["nested"] == {"a": 1}
        assert run.state == "finished"
        assert run.group == f"baseline={run.get('baseline.kind')}"
        assert run.tags == ("fixture", run.get("baseline.kind"))
        assert run.notes == ()


def test_a_resumed_run_is_stitched_on_the_training_step(tmp_path):
    """W&B's _step is rewound, repeated or shifted in a resumed run: it must not matter."""
    log.write(tmp_path, "a", [log.run("a", 100, {"seed": 1}), *log.rows(1, 27, loss=1.0)], "20260101_000001")
    second = [log.history({"training/global_step": step, "_step": step + 500, "loss": 2.0}) for step in range(21, 31)]
    log.write(tmp_path, "a", [log.run("a", 200, {"seed": 1}), *second], "20260101_000002")
    third = [log.history({"training/global_step": step, "_step": step - 25, "loss": 3.0}) for step in range(26, 41)]
    log.write(tmp_path, "a", [log.run("a", 300), *third, log.leave()], "20260101_000003")
    (run,) = local.load(tmp_path)
    loss = run.metric("loss")
    assert loss.index.tolist() == list(range(1, 41))
    assert loss.tolist() == [1.0] * 20 + [2.0] * 5 + [3.0] * 15
    assert run.state == "finished"
    assert run.get("seed") == 1
    assert len(run.files) == 3
    assert [note for note in run.notes if "resumed at" in note] == [
        "resumed at step 21: 7 earlier rows from there on were undone",
        "resumed at step 26: 5 earlier rows from there on were undone",
    ]


def test_a_shorter_second_attempt_undoes_what_came_after_its_start(tmp_path):
    log.write(tmp_path, "a", [log.run("a", 100), *log.rows(1, 27, loss=1.0)], "20260101_000001")
    log.write(tmp_path, "a", [log.run("a", 200), *log.rows(21, 23, loss=2.0)], "20260101_000002")
    (run,) = local.load(tmp_path)
    assert run.metric("loss").index.tolist() == list(range(1, 24))


def test_an_evaluation_before_training_joins_the_row_that_is_there(tmp_path):
    """verl evaluates before it goes on and logs that without a training step."""
    first = [log.run("a", 100), log.history({"_step": 0, "val": 0.1}), *log.rows(1, 20, loss=1.0)]
    log.write(tmp_path, "a", first, "20260101_000001")
    second = [log.run("a", 200), log.history({"_step": 20, "val": 0.5}), *log.rows(21, 30, loss=2.0)]
    log.write(tmp_path, "a", second, "20260101_000002")
    (run,) = local.load(tmp_path)
    assert run.metric("val").to_dict() == {0: 0.1, 20: 0.5}
    assert run.metric("loss").to_dict() == {step: 1.0 if step <= 20 else 2.0 for step in range(1, 31)}
    assert run.notes == ()


def test_repeated_steps_keep_the_later_value_of_each_metric(tmp_path):
    rows = [
        log.history({"training/global_step": 1, "_step": 0, "a": 1, "b": 1}),
        log.history({"training/global_step": 1, "_step": 1, "a": 2}),
        log.history({"training/global_step": 2, "_step": 2, "a": math.nan}),
        log.history({"training/global_step": 2, "_step": 3, "b": 5}),
    ]
    log.write(tmp_path, "a", [log.run("a"), *rows])
    (run,) = local.load(tmp_path)
    assert run.history["step"].tolist() == [1, 2]
    assert run.metric("b").tolist() == [1, 5]
    a = run.metric("a")
    assert a[1] == 2
    assert math.isnan(a[2])
    # The step itself was logged twice in both pairs too, but counts nothing.
    assert run.notes == ("1 value was logged again at the same step: the later one stays",)


def test_other_step_axes(tmp_path):
    axis = log.message(12, log.message(2, b"val/*") + log.message(4, b"trainer/step"))
    log.write(tmp_path, "defined", [log.run("defined", 1), axis, log.history({"trainer/step": 10, "_step": 0, "x": 1})])
    log.write(tmp_path, "plain", [log.run("plain", 2), log.history({"x": 1}, step=3)])
    log.write(tmp_path, "none", [log.run("none", 3), log.history({"x": 1})])
    defined, plain, none = local.load(tmp_path)
    assert defined.metric("x").index.tolist() == [10]
    assert plain.metric("x").index.tolist() == [3]
    assert "no training/global_step in the log: the step is _step" in plain.notes
    assert none.metrics == ()
    assert any("1 rows have no step" in note for note in none.notes)


def test_state_without_an_exit_record_goes_by_age(tmp_path):
    path = log.write(tmp_path, "a", [log.run("a"), *log.rows(1, 3)])
    os.utime(path, (NOW - 30, NOW - 30))
    assert local.load(tmp_path, now=NOW)[0].state == "running"
    os.utime(path, (NOW - 3600, NOW - 3600))
    assert local.load(tmp_path, now=NOW)[0].state == "crashed"
    log.write(tmp_path, "b", [log.run("b", 1), *log.rows(1, 3), log.leave(1)])
    assert local.load(tmp_path, now=NOW)[0].state == "failed"


def test_a_folder_without_data_is_listed(tmp_path):
    log.write(tmp_path, "a", [log.run("a", 100, name="mean"), *log.rows(1, 3, loss=1.0), log.leave()])
    (tmp_path / "wandb" / "offline-run-20260102_000000-purged" / "files").mkdir(parents=True)
    found = {run.id: run for run in local.load(tmp_path)}
    assert found["a"].notes == ()
    purged = found["purged"]
    assert (purged.state, len(purged.history)) == ("unknown", 0)
    assert purged.notes == ("offline-run-20260102_000000-purged has no .wandb file", "nothing was logged")
    # Of a resumed run one of several: the run keeps its name and what the others hold.
    (tmp_path / "wandb" / "offline-run-20260103_000000-a").mkdir()
    resumed = {run.id: run for run in local.load(tmp_path)}["a"]
    assert (resumed.label, resumed.last_step) == ("mean", 3)
    assert resumed.notes == ("offline-run-20260103_000000-a has no .wandb file",)


def test_a_folder_of_nothing_but_folders_without_data_is_an_error(tmp_path):
    (tmp_path / "wandb" / "offline-run-20260102_000000-purged").mkdir(parents=True)
    with pytest.raises(HarnessError, match=r"no \.wandb file below"):
        local.load(tmp_path)


def test_links_do_not_double_a_run(tmp_path):
    path = log.write(tmp_path, "a", [log.run("a"), *log.rows(1, 3)])
    (tmp_path / "wandb" / "latest-run").symlink_to(path.parent)
    assert len(local.load(tmp_path)) == 1


def test_damage_is_noted_and_stops_nothing(tmp_path):
    path = log.write(tmp_path, "a", [log.run("a", 1), *log.rows(1, 500, loss=1.0), log.leave()])
    data = bytearray(path.read_bytes())
    data[1000] ^= 255
    path.write_bytes(data[:20000])
    os.utime(path, (1e9, 1e9))
    log.write(tmp_path, "b", [log.run("b", 2)]).write_bytes(b"rubbish" * 100)
    log.write(tmp_path, "c", [log.run("c", 3), *log.rows(1, 3), log.leave()])
    by_id = {run.id: run for run in local.load(tmp_path, now=NOW)}
    assert by_id.keys() == {"a", "b", "c"}
    assert any("1 of " in note and "records lost" in note for note in by_id["a"].notes)
    assert any("ends within a record" in note for note in by_id["a"].notes)
    assert by_id["b"].last_step is None
    assert by_id["b"].state == "unknown"
    assert any("damaged" in note for note in by_id["b"].notes)
    assert by_id["c"].notes == ()


def test_a_fragment_that_lost_its_name_finds_its_run(tmp_path):
    log.write(tmp_path, "a", [log.run("a", 100, entity="e", project="p"), *log.rows(1, 5)], "20260101_000001")
    path = log.write(tmp_path, "a", [log.run("a", 200), *log.rows(6, 9)], "20260101_000002")
    data = bytearray(path.read_bytes())
    data[20] ^= 255  # within the run record
    path.write_bytes(data)
    (run,) = local.load(tmp_path)
    assert run.history["step"].tolist() == list(range(1, 10))


def test_one_id_in_two_projects_is_two_runs(tmp_path):
    for number, project in enumerate(("p", "q")):
        log.write(tmp_path / project, "a", [log.run("a", number, entity="e", project=project), *log.rows(1, 5)])
    assert len(local.load(tmp_path)) == 2


def test_nothing_there_is_an_error(tmp_path):
    with pytest.raises(HarnessError, match=r"no \.wandb file below"):
        local.load(tmp_path)
    with pytest.raises(HarnessError, match="does not exist"):
        local.load(tmp_path / "absent")


def same(run, other):
    assert run.history.equals(other.history)
    assert (run.config, run.summary, run.state, run.notes, run.nan_steps, run.tags, run.created) == (
        other.config,
        other.summary,
        other.state,
        other.notes,
        other.nan_steps,
        other.tags,
        other.created,
    )


def test_the_cache_gives_the_same_run_without_parsing(tmp_path, monkeypatch):
    rows = log.rows(1, 300, loss=lambda step: math.nan if step == 7 else step, often=lambda step: math.inf)
    log.write(tmp_path, "a", [log.run("a", 1, {"x": {"y": [1, "é"]}}), *rows, log.history({"rare": 1}), log.leave()])
    folder = tmp_path / "cache"
    (plain,) = local.load(tmp_path)
    same(local.load(tmp_path, cached=folder)[0], plain)
    monkeypatch.setattr(wandbfile, "records", lambda *_: pytest.fail("parsed again"))
    same(local.load(tmp_path, cached=folder)[0], plain)


def test_the_cache_follows_a_growing_file(tmp_path):
    records = [log.run("a", 1), *log.rows(1, 400, loss=float)]
    path = log.write(tmp_path, "a", records)
    data = path.read_bytes()
    for size in range(100, len(data), 5003):
        path.write_bytes(data[:size])
        cached, plain = (local.load(tmp_path, cached=folder)[0] for folder in (tmp_path / "cache", None))
        assert cached.history.equals(plain.history)


def test_the_cache_notices_a_file_of_the_same_size(tmp_path):
    path = log.write(tmp_path, "a", [log.run("a", 1), *log.rows(1, 9, loss=1.5)])
    local.load(tmp_path, cached=tmp_path / "cache")
    path.write_bytes(log.file([log.run("a", 1), *log.rows(1, 9, loss=2.5)]))
    assert set(local.load(tmp_path, cached=tmp_path / "cache")[0].metric("loss")) == {2.5}


def test_a_damaged_or_unwritable_cache_costs_only_time(tmp_path):
    log.write(tmp_path, "a", [log.run("a", 1), *log.rows(1, 9, loss=1.5)])
    folder = tmp_path / "cache"
    (plain,) = local.load(tmp_path)
    local.load(tmp_path, cached=folder)
    (entry,) = (folder / "fragments").iterdir()
    for content in (b"", b"rubbish", entry.read_bytes()[:-20]):
        entry.write_bytes(content)
        same(local.load(tmp_path, cached=folder)[0], plain)
    (tmp_path / "file").write_text("")
    same(local.load(tmp_path, cached=tmp_path / "file")[0], plain)


def test_the_cache_key_tells_paths_apart(tmp_path):
    for number in (1, 2):
        log.write(tmp_path / str(number), "a", [log.run("a", 1), *log.rows(1, 3, loss=float(number))])
        local.load(tmp_path / str(number), cached=tmp_path / "cache")
    assert len(list((tmp_path / "cache" / "fragments").iterdir())) == 2
    assert cache.default_folder().name


def test_a_row_without_a_training_step_is_placed_beside_its_neighbours(tmp_path):
    """`wandb sync` shifts _step of a resumed fragment: only the distance to the neighbour counts."""
    rows = [log.history({"_step": 1020, "val": 0.5})]
    rows += [log.history({"training/global_step": step, "_step": step + 1000, "loss": 1.0}) for step in (21, 22)]
    rows += [log.history({"_step": 1022, "val": 0.6})]
    log.write(tmp_path, "a", [log.run("a"), *rows])
    (run,) = local.load(tmp_path)
    assert run.metric("val").to_dict() == {20: 0.5, 22: 0.6}


def test_folders_that_never_hold_logs_are_not_searched(tmp_path):
    log.write(tmp_path, "a", [log.run("a"), *log.rows(1, 3)])
    log.write(tmp_path / "checkpoints", "b", [log.run("b"), *log.rows(1, 3)])
    assert [run.id for run in local.load(tmp_path)] == ["a"]
