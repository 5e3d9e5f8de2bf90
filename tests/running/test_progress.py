"""The table of runs on terminals of every size."""

from __future__ import annotations

import os
import re

import pytest

from harness.running import progress
from harness.running.progress import Row
from harness.store.runs import RunState


def _row(number: int, *, kind: str = "running", model: str = "tiny", flag: str = "") -> Row:
    state = RunState(f"{number:06d}abcd", kind, 19, 40, 1, "")
    return Row(state.id, f"QAE K=0.2, {model}, seed 1", "qae", "0.2", model, "1", state, 0.149, 0.599, 0.12, 208.0,
               entropy_flag=flag)  # fmt: skip


def test_at_eighty_columns_every_figure_is_whole() -> None:
    text = progress.plain([_row(1, flag="collapsed"), _row(2)], "sweep smoke: 1 running", columns=80)
    head, first = text.splitlines()[1:3]
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert head.split() == ["run", "baseline", "K", "seed", "state", "step", "entropy", "pass@1", "zero", "left"]
    assert first.split() == [
        "000001", "qae", "0.2", "1", "running", "19/40", "0.149", "0.599", "12%", "3m28s", "collapsed",
    ]  # fmt: skip


def test_ids_that_a_short_form_would_confuse_stay_whole() -> None:
    rows = [_row(1), _row(1)]
    assert progress.plain(rows, "", columns=60).count("000001abcd") == 2


def test_models_that_differ_stay_in_a_narrow_table() -> None:
    text = progress.plain([_row(1), _row(2, model="mini")], "", columns=60)
    assert "tiny" in text
    assert "mini" in text


def test_a_wide_terminal_and_a_file_get_all_words() -> None:
    rows = [_row(1, flag="collapsed")]
    for text in (progress.plain(rows, ""), progress.plain(rows, "", columns=200)):
        assert "zero adv." in text
        assert "entropy collapsed" in text
        assert "tiny" in text


def test_more_runs_than_lines_show_those_that_run_and_count_the_others() -> None:
    kinds = ["done"] * 20 + ["failed"] + ["new"] * 19 + ["running"] * 2
    rows = [_row(i, kind=kind) for i, kind in enumerate(kinds)]
    lines = progress.plain(rows, "title", columns=80, lines=12).splitlines()
    assert len(lines) == 11  # the last one is the cursor's
    shown = [line.split()[4] for line in lines[2:-1]]
    assert shown.count("running") == 2
    assert shown.count("failed") == 1
    assert lines[-1] == "and 34 more: 20 done, 14 new"


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_the_live_table_fits_its_terminal(columns: int) -> None:
    rows = [_row(i) for i in range(50)]
    text = progress.table(rows, "sweep smoke", os.terminal_size((columns, 24)))
    lines = text.plain.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= columns


def test_colours_do_not_change_the_words() -> None:
    rows = [_row(1, flag="exploded"), _row(2, kind="done")]
    coloured = progress.plain(rows, "title", colour=True)
    assert re.sub(r"\x1b\[\d+m", "", coloured) == progress.plain(rows, "title")
    assert "\x1b[31mentropy exploded" in coloured
