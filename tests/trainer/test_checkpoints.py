from __future__ import annotations

from pathlib import Path

import pytest

from harness.trainer import checkpoints


def save(root: Path, step: int, seal: bool = True, track: bool = True) -> Path:
    """What verl leaves after a save."""
    folder = checkpoints.folder(root, step)
    (folder / "actor").mkdir(parents=True)
    (folder / "actor" / "model.pt").write_bytes(b"weights")
    (folder / "data.pt").write_bytes(b"data")
    if track:
        (root / checkpoints.TRACKER).write_text(str(step))
    if seal:
        checkpoints.seal(root, step)
    return folder


def test_without_checkpoints_training_starts_from_the_beginning(tmp_path):
    assert checkpoints.repair(tmp_path) is None
    assert checkpoints.repair(tmp_path / "absent") is None


def test_the_newest_whole_checkpoint_is_named(tmp_path):
    save(tmp_path, 10)
    save(tmp_path, 20)
    assert checkpoints.repair(tmp_path) == checkpoints.tracked(tmp_path) == 20


@pytest.mark.parametrize("tracker", ["", "30", "not a number", None])
def test_a_save_cut_short_falls_back_to_the_one_before(tmp_path, tracker):
    save(tmp_path, 20)
    (checkpoints.folder(tmp_path, 30) / "actor").mkdir(parents=True)
    if tracker is None:
        (tmp_path / checkpoints.TRACKER).unlink()
    else:
        (tmp_path / checkpoints.TRACKER).write_text(tracker)
    assert checkpoints.repair(tmp_path) == checkpoints.tracked(tmp_path) == 20


def test_a_file_that_lost_bytes_breaks_the_seal(tmp_path):
    save(tmp_path, 10)
    (save(tmp_path, 20) / "actor" / "model.pt").write_bytes(b"wei")
    assert checkpoints.repair(tmp_path) == 10


def test_a_first_save_cut_short_leaves_no_tracker_behind(tmp_path):
    save(tmp_path, 10, seal=False, track=False)
    (tmp_path / checkpoints.TRACKER).write_text("")
    assert checkpoints.repair(tmp_path) is None
    assert not (tmp_path / checkpoints.TRACKER).exists()


def test_a_checkpoint_of_stock_verl_counts_where_its_tracker_names_it(tmp_path):
    save(tmp_path, 10, seal=False)
    assert checkpoints.repair(tmp_path) == 10


def test_pruning_keeps_the_newest_whole_ones(tmp_path):
    for step in (10, 20, 30):
        save(tmp_path, step)
    save(tmp_path, 25, seal=False, track=False)
    checkpoints.prune(tmp_path, 2)
    assert checkpoints.steps(tmp_path) == [20, 30]
    checkpoints.prune(tmp_path, None)
    assert checkpoints.steps(tmp_path) == [20, 30]


def test_pruning_never_touches_a_save_in_progress(tmp_path):
    save(tmp_path, 10)
    save(tmp_path, 20, seal=False, track=False)
    checkpoints.prune(tmp_path, 1)
    assert checkpoints.steps(tmp_path) == [10, 20]
