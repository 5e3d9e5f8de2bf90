"""What a kill, a power cut or a full disk leaves in the journal, and onlookers that leave nothing."""

from __future__ import annotations

import pytest

from harness.errors import HarnessError
from harness.search import logfile
from harness.search.controller import Controller
from harness.search.journal import Journal
from tests.support import search_world
from tests.support.search_world import World, finish, peak

ENDS = [
    b'{"op_code": 5, "worker_i',
    b'{"op_code": 5, "worker_i\n',
    b"garbage\n",
    b"\0\0\0\0",
    b"\0\0\n\0\0\n",
    b"7\n",
    b"\n",
]


@pytest.fixture
def begun(tmp_path):
    study, path = search_world.study(budget={"runs": 24}, confirm={"trials": 1, "seeds": 1, "compare": []}), None
    path = tmp_path / "s" / "journal.log"
    world = World(peak(6))
    controller = Controller(study, Journal(study, path), world)
    for _ in range(25):
        controller.tick()
        world.advance()
    return study, world, path


@pytest.mark.parametrize("end", ENDS)
def test_a_damaged_end_is_left_out_by_onlookers_and_cut_off_by_the_next_controller(begun, end):
    study, world, path = begun
    before = path.read_bytes()
    trials = len(Journal(study, path, reading=True).trials())
    path.write_bytes(before + end)
    assert len(Journal(study, path, reading=True).trials()) == trials
    assert path.read_bytes() == before + end
    assert len(Journal(study, path).trials()) == trials
    assert path.read_bytes() == before
    assert path.with_name("journal.log.damaged").read_bytes() == end
    view = finish(study, world, path)
    assert view.over == "done"
    assert len(set(world.started)) == len(world.started)


def test_damage_in_the_middle_is_named_and_nothing_is_cut(begun):
    study, _, path = begun
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"garbage\n", *lines[5:]]))
    before = path.read_bytes()
    for reading in (True, False):
        with pytest.raises(HarnessError, match="journal.log: line 5 is damaged: restore the file"):
            Journal(study, path, reading=reading)
    assert path.read_bytes() == before


def test_who_only_looks_leaves_no_mark_and_needs_no_right_to_write(begun):
    study, world, path = begun
    before, files = path.read_bytes(), sorted(path.parent.iterdir())
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        journal = Journal(study, path, reading=True)
        view = Controller(study, journal, world).view()
        with pytest.raises(RuntimeError, match="was opened for reading"):
            journal.set("note", "x")
    finally:
        path.parent.chmod(0o755)
    assert view.trials
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == (before, files)


def test_an_onlooker_sees_what_the_controller_writes_meanwhile(begun):
    study, world, path = begun
    looking = Journal(study, path, reading=True)
    many = len(looking.trials())
    finish(study, world, path)
    assert len(looking.trials()) > many
    assert looking.get("over") == "done"


def test_opening_again_writes_nothing(begun):
    study, _, path = begun
    before = path.read_bytes()
    Journal(study, path)
    assert path.read_bytes() == before
    assert len(logfile.lines(path)) == before.count(b"\n")


def test_a_file_of_another_study_is_no_study(begun):
    _, _, path = begun
    with pytest.raises(HarnessError, match="holds no study other"):
        Journal(search_world.study("other"), path, reading=True)
