from __future__ import annotations

import os
import time

import pytest

from harness import cli, files
from harness.commands import gc
from harness.slurm import submission
from harness.store import claim
from harness.trainer import checkpoints
from tests.planning.test_forecast import freeze, trained

STUDY = """
overrides: [cluster=local, cluster.fork_server=false, steps=40, save_every=10]
grid: [{baseline: [mean, rloo]}]
"""


@pytest.fixture
def runs(lab):
    lab.sweep(STUDY)
    return freeze(lab)


def saved(lab, run, *steps, torn=()):
    root = lab.runs / run / "checkpoints"
    for step in (*steps, *torn):
        checkpoints.folder(root, step).mkdir(parents=True)
        (checkpoints.folder(root, step) / "model.pt").write_bytes(b"x" * 200_000)
        if step in steps:
            checkpoints.seal(root, step)
    files.write_text(root / checkpoints.TRACKER, str(max(steps)))
    return root


def test_it_shows_and_removes_only_when_told(lab, runs, capsys):
    root = saved(lab, runs[0], 10, 20, 30)
    trained(lab, runs[0], seconds=60, step=35)
    assert cli.main(["gc"]) == 0
    out = capsys.readouterr().out
    assert "2  checkpoints" in out
    assert "nothing was removed: --yes removes it" in out
    assert checkpoints.steps(root) == [10, 20, 30]
    assert cli.main(["gc", "--yes"]) == 0
    assert "freed" in capsys.readouterr().out
    assert checkpoints.steps(root) == [30]
    assert lab.store.checkpoint(runs[0]) == 30
    assert cli.main(["gc"]) == 0
    assert "nothing to free" in capsys.readouterr().out


def test_an_interrupted_save_goes_but_never_the_newest_whole_one(lab, runs):
    root = saved(lab, runs[0], 20, torn=(10, 30))
    wastes = gc.find(lab.store, runs)
    assert [(w.path.name, w.why) for w in wastes] == [("global_step_10", "a save that was interrupted")]
    gc.remove(lab.store, wastes)
    assert checkpoints.steps(root) == [20, 30]


def test_a_run_that_somebody_works_on_is_left_alone(lab, runs):
    root = saved(lab, runs[0], 10, 20)
    with claim.claimed(lab.runs / runs[0]):
        assert gc.find(lab.store, runs) == []
    wastes = gc.find(lab.store, runs)
    owner = os.fork()
    if not owner:  # another process takes the run between the look and the removal
        claim.take(lab.runs / runs[0])
        time.sleep(30)
        os._exit(0)
    try:
        while claim.owner(lab.runs / runs[0]) is None:
            time.sleep(0.02)
        gone, kept = gc.remove(lab.store, wastes)
        assert gone == []
        assert "is in use by" in next(iter(kept.values()))
    finally:
        os.kill(owner, 9)
        os.waitpid(owner, 0)
    assert checkpoints.steps(root) == [10, 20]


def test_queued_runs_keep_everything(lab, runs, monkeypatch):
    from dataclasses import replace

    from harness.slurm import live

    root = saved(lab, runs[0], 10, 20)
    real = live.overview

    def queued(store, ids):
        return {run: replace(s, state=replace(s.state, kind="queued")) for run, s in real(store, ids).items()}

    monkeypatch.setattr(live, "overview", queued)
    assert gc.find(lab.store, runs) == []
    assert checkpoints.steps(root) == [10, 20]


def test_all_checkpoints_of_done_runs_go_only_when_asked_for(lab, runs, capsys):
    root = saved(lab, runs[0], 30, 40)
    files.write_json(lab.runs / runs[0] / "done.json", {"step": 40, "total": 40})
    assert [w.path.name for w in gc.find(lab.store, runs)] == ["global_step_30"]
    assert cli.main(["gc", "--finished", "--yes"]) == 0
    assert checkpoints.steps(root) == []
    assert lab.store.state(runs[0]).kind == "done"


def test_the_policy_of_the_run_decides(lab):
    lab.sweep(STUDY.replace("steps=40,", "steps=40, keep_checkpoints=2, keep_best=true, keep_every=20,"))
    (run, _) = freeze(lab)
    saved(lab, run, 10, 20, 30, 40, 50, 60, 70)
    (lab.runs / run / "metrics.jsonl").write_text('{"step": 30, "time": 1, "metrics": {"eval/pass@1": 0.9}}\n')
    assert [w.path.name for w in gc.find(lab.store, [run])] == ["global_step_10", "global_step_50"]


def test_snapshots_and_submissions_that_nobody_needs(lab, runs):
    needed, old = lab.runs / "_snapshots" / "aaaa", lab.runs / "_snapshots" / "bbbb"
    for folder in (needed, old):
        folder.mkdir(parents=True)
        (folder / "x.py").write_text("x")
        files.write_json(folder.with_suffix(".json"), {})
    spec = lab.store.spec(runs[0])
    files.write_json(lab.runs / runs[0] / "spec.json", {**spec, "provenance": {"snapshot": str(needed)}})
    record = {"name": "n", "sweep": "s", "user": "u", "host": "h", "time": 0.0, "array": "1"}
    for key, linked in (("1111", runs[0]), ("2222", None)):
        made = submission.Submission(key=key, runs=(runs[0],), **record)
        submission.write(lab.runs, made)
        os.utime(submission.folder(lab.runs, key) / "submission.json", (0, 0))
        if linked:
            files.write_json(lab.runs / linked / "slurm.json", {"submission": key, "index": 0, "withheld": ""})
    found = gc.find(lab.store, [])
    assert {w.path.name for w in found} == {"bbbb", "2222"}
    gc.remove(lab.store, found)
    assert sorted(p.name for p in (lab.runs / "_snapshots").iterdir()) == ["aaaa", "aaaa.json"]


def test_temporary_files_of_killed_writers_go_wherever_they_lie(lab, runs):
    folder = lab.runs / runs[0]
    places = [
        "",
        "attempts/001/",
        "outcomes/eval/",
        "evaluations/step_000010/",
        "evaluations/step_000010/outcomes/eval/",
    ]
    for place in places:
        for name, age in ((".old.json.x.tmp", 1e6), (".new.json.x.tmp", 0.0)):
            path = folder / place / name
            files.write_text(path, "torn")
            os.utime(path, (time.time() - age, time.time() - age))
    found = [waste.path for waste in gc.find(lab.store, runs) if waste.kind == "temporary files"]
    assert sorted(found) == sorted(folder / place / ".old.json.x.tmp" for place in places)
