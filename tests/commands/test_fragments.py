from __future__ import annotations

import math

import pytest

from analysis.sources import wandbfile
from harness.commands import fragments
from tests.support import wandb_log


def fragment(path, steps, *, filler=0):
    rows = [wandb_log.history({"training/global_step": s, "loss": 1.0 / s, "text": "x" * filler}, s) for s in steps]
    path.write_bytes(wandb_log.file([wandb_log.run("abc"), *rows, wandb_log.leave()]))
    return path


def steps(data, path):
    path.write_bytes(data)
    return wandbfile.read(path).columns["training/global_step"].astype(int).tolist()


def test_a_later_fragment_wins_from_its_first_step_on(tmp_path):
    files = [fragment(tmp_path / f"{i}.wandb", part) for i, part in enumerate([range(1, 7), range(4, 6), range(5, 9)])]
    cuts = fragments.cuts(files)
    assert cuts == [4, 5, math.inf]
    kept = [steps(fragments.cut(f.read_bytes(), c), tmp_path / "x.wandb") for f, c in zip(files, cuts, strict=True)]
    assert kept == [[1, 2, 3], [4], [5, 6, 7, 8]]


@pytest.mark.parametrize("filler", [0, 31_000, 40_000])
def test_what_is_kept_is_the_same_bytes_over_any_block_boundary(tmp_path, filler):
    path = fragment(tmp_path / "a.wandb", range(1, 8), filler=filler)
    assert fragments.cut(path.read_bytes(), math.inf) == path.read_bytes()
    assert steps(fragments.cut(path.read_bytes(), 5), tmp_path / "b.wandb") == [1, 2, 3, 4]


def test_a_fragment_without_steps_cuts_nothing(tmp_path):
    first = fragment(tmp_path / "a.wandb", range(1, 4))
    second = tmp_path / "b.wandb"
    second.write_bytes(wandb_log.file([wandb_log.run("abc"), wandb_log.leave()]))
    assert fragments.cuts([first, second]) == [math.inf, math.inf]


def test_a_torn_end_is_left_out(tmp_path):
    path = fragment(tmp_path / "a.wandb", range(1, 8))
    torn = path.read_bytes()[:-30]
    assert steps(fragments.cut(torn, math.inf), tmp_path / "b.wandb") == [1, 2, 3, 4, 5, 6]
