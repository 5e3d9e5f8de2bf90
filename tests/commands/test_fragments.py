from __future__ import annotations

import numpy as np
import pytest

from analysis.sources import wandbfile
from harness.commands import fragments
from tests.support import wandb_log


def fragment(path, steps, *, value=None, filler=0):
    value = float(ord(path.stem[0])) if value is None else value
    rows = [
        wandb_log.history({"training/global_step": s, "loss": value + 1.0 / s, "text": "x" * filler}, s) for s in steps
    ]
    path.write_bytes(wandb_log.file([wandb_log.run("abc"), *rows, wandb_log.leave()]))
    return path


def steps(data, path):
    path.write_bytes(data)
    return wandbfile.read(path).columns.get("training/global_step", np.empty(0)).astype(int).tolist()


def kept(files, chosen, tmp_path):
    return [steps(fragments.cut(f.read_bytes(), chosen.rows[f]), tmp_path / "x.wandb") for f in files]


def test_a_later_fragment_wins_from_its_first_step_on(tmp_path):
    files = [fragment(tmp_path / f"{i}.wandb", part) for i, part in enumerate([range(1, 7), range(4, 6), range(5, 9)])]
    chosen = fragments.select(files, {})
    assert kept(files, chosen, tmp_path) == [[1, 2, 3], [4], [5, 6, 7, 8]]
    assert chosen.undone == ()


def test_a_step_that_is_on_the_server_is_not_uploaded_again(tmp_path):
    files = [fragment(tmp_path / f"{i}.wandb", part) for i, part in enumerate([range(1, 7), range(4, 6), range(5, 9)])]
    chosen = fragments.select(files, {files[0]: np.ones(6, dtype=bool)})
    assert kept(files, chosen, tmp_path) == [[], [], [7, 8]]
    assert chosen.undone == (4, 5, 6)
    # Of the first fragment only what was left at the time is there: the third one brings the rest.
    sent = {files[0]: np.array([1, 1, 1, 0, 0, 0], dtype=bool), files[1]: np.ones(2, dtype=bool)}
    chosen = fragments.select(files, sent)
    assert kept(files, chosen, tmp_path) == [[], [], [6, 7, 8]]
    assert chosen.undone == (5,)


def test_an_evaluation_that_comes_late_is_uploaded_once_and_undoes_nothing(tmp_path):
    first = fragment(tmp_path / "a.wandb", range(1, 7))
    second = tmp_path / "b.wandb"
    late = [wandb_log.history({"training/global_step": 3, "val-core/x/acc/mean@8": 0.5}, 7)]
    second.write_bytes(wandb_log.file([wandb_log.run("abc"), *late, *wandb_log.rows(7, 8, loss=1.0)]))
    chosen = fragments.select([first, second], {first: np.ones(6, dtype=bool)})
    assert kept([second], chosen, tmp_path) == [[3, 7, 8]]
    assert chosen.undone == ()
    third = tmp_path / "c.wandb"
    third.write_bytes(wandb_log.file([wandb_log.run("abc"), *late, *wandb_log.rows(9, 9, loss=1.0)]))
    sent = {first: np.ones(6, dtype=bool), second: np.ones(3, dtype=bool)}
    assert kept([third], fragments.select([first, second, third], sent), tmp_path) == [[9]]


@pytest.mark.parametrize("filler", [0, 31_000, 40_000])
def test_what_is_kept_is_the_same_bytes_over_any_block_boundary(tmp_path, filler):
    path = fragment(tmp_path / "a.wandb", range(1, 8), filler=filler)
    assert fragments.cut(path.read_bytes(), np.ones(7, dtype=bool)) == path.read_bytes()
    assert steps(fragments.cut(path.read_bytes(), np.arange(7) < 4), tmp_path / "b.wandb") == [1, 2, 3, 4]


def test_a_fragment_without_steps_and_a_destroyed_one_cut_nothing(tmp_path):
    first = fragment(tmp_path / "a.wandb", range(1, 4))
    second, third = tmp_path / "b.wandb", tmp_path / "c.wandb"
    second.write_bytes(wandb_log.file([wandb_log.run("abc"), wandb_log.leave()]))
    third.write_bytes(b"rubbish" * 100)
    chosen = fragments.select([first, second, third], {})
    assert [chosen.rows[path].tolist() for path in (first, second, third)] == [[True] * 3, [], []]


def test_a_torn_end_is_left_out(tmp_path):
    path = fragment(tmp_path / "a.wandb", range(1, 8))
    torn = path.read_bytes()[:-30]
    assert steps(fragments.cut(torn, np.ones(7, dtype=bool)), tmp_path / "b.wandb") == [1, 2, 3, 4, 5, 6]
