from __future__ import annotations

import functools
import os
import signal
import time
from pathlib import Path

import pytest

from harness import files
from harness.slurm import live

pytestmark = pytest.mark.slow  # many processes, files or figures

STUDY = """
overrides: [cluster=local, cluster.fork_server=false, steps=6, save_every=2, evaluation.every=3, cluster.grace_seconds=5]
grid:
  - baseline: mean
  - {baseline: qae, baseline.K: [0.2, 0.8]}
seeds: [1]
"""


def trained(lab, run):
    return files.read_json_lines(lab.runs / run / "trained.jsonl")[0]


def wait_for(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def marked(lab):
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"HARNESS_ATTEMPT={lab.runs}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_every_run_is_done_once_and_recorded(lab, capsys):
    lab.sweep(STUDY)
    assert lab.apply() == 0
    runs = [e.id for e in lab.plan()]
    for run in runs:
        folder = lab.runs / run
        assert files.read_json(folder / "done.json")["evaluations"] == [0, 3, 6]
        assert files.read_json(folder / "attempts" / "001" / "attempt.json")["outcome"] == "done"
        assert (folder / "attempts" / "001" / "stdout.log").read_text() == "hello\n"
        events = [row["event"] for row in files.read_json_lines(folder / "events.jsonl")[0]]
        assert events == ["frozen", "started", "done"]
        assert files.read_json(folder / "spec.json")["verl"]["trainer"]["total_training_steps"] == 6
    assert files.read_json(lab.runs / "_sweeps" / "study.json")["points"][0]["id"] == runs[0]
    assert lab.apply() == 0
    assert all(len(trained(lab, run)) == 1 for run in runs)
    out = capsys.readouterr().out
    assert "3 runs train on this machine; Ctrl-C saves and stops" in out
    assert "3 to keep" in out


def test_a_failed_run_does_not_stop_the_others_and_is_told_with_its_line(lab, capsys):
    lab.sweep(STUDY)
    lab.wish(fail="mean")
    assert lab.apply() == 1
    out = capsys.readouterr().out
    assert "1 of the runs failed:" in out
    assert "ValueError: loss is nan at step 1" in out
    assert "stdout.log" in out
    assert [lab.store.state(e.id).kind for e in lab.plan()] == ["failed", "done", "done"]


def test_exit_code_0_before_the_target_step_is_not_done(lab, capsys):
    lab.sweep(STUDY)
    lab.wish(short="mean")
    assert lab.apply() == 1
    assert "ended with exit code 0, but training step 2 of 6 has no outcomes" in capsys.readouterr().out


def test_a_run_that_does_not_move_is_a_hang(lab, capsys):
    lab.sweep(STUDY.replace("grace_seconds=5", "grace_seconds=5, cluster.hang_minutes=0.05"))
    lab.wish(hang="mean")
    assert lab.apply() == 1
    assert "no progress for 0.05 minutes" in capsys.readouterr().out
    assert marked(lab) == []


def test_two_sweeps_at_once_run_no_point_twice(lab):
    lab.sweep(STUDY)
    lab.wish(step_seconds=0.2)
    both = [lab.start(), lab.start()]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    for entry in lab.plan():
        assert len(trained(lab, entry.id)) == 1


def test_interrupt_saves_and_the_next_apply_goes_on(lab):
    lab.sweep(STUDY)
    lab.wish(step_seconds=0.5)
    process = lab.start()
    first = lab.plan()[0].id
    wait_for(lambda: lab.store.heartbeat(first).get("step", 0) >= 1)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130, output
    assert "the same command goes on from the last checkpoints" in output
    assert marked(lab) == []
    state = lab.store.state(first)
    assert state.kind == "stopped"
    assert lab.store.checkpoint(first) == state.step > 0
    lab.wish()
    assert lab.apply() == 0
    assert [row["from"] for row in trained(lab, first)] == [0, state.step]


@pytest.mark.parametrize("victim", ["sweep", "supervisor", "trainer"])
def test_a_kill_loses_at_most_one_save_interval(lab, victim):
    lab.sweep(STUDY)
    lab.wish(step_seconds=0.4)
    process = lab.start()
    first = lab.plan()[0].id
    wait_for(lambda: lab.store.heartbeat(first).get("step", 0) >= 3)
    supervisor = files.read_json(lab.runs / first / "claim.json")["pid"]
    pid = {"sweep": process.pid, "supervisor": supervisor, "trainer": trained(lab, first)[0]["pid"]}[victim]
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=120)
    wait_for(lambda: marked(lab) == [])
    assert (process.returncode != 0) or victim != "sweep"
    assert lab.store.state(first).kind in ("stopped", "failed")
    step = lab.store.state(first).step
    lab.wish()
    assert lab.apply() == 0
    goes_on = trained(lab, first)[1]["from"]
    assert step - 2 <= goes_on <= step
    assert [lab.store.state(e.id).kind for e in lab.plan()] == ["done"] * 3


def test_secrets_reach_no_file(lab, monkeypatch):
    secret = "planted0123456789abcdef"
    monkeypatch.setenv("WANDB_API_KEY", secret)
    lab.sweep(STUDY.replace("steps=6", f"steps=6, tracking.project={secret}"))
    lab.wish(say=f"my key is {secret}")
    assert lab.apply() == 0
    texts = {path: path.read_bytes() for path in lab.runs.rglob("*") if path.is_file()}
    assert len(texts) > 20
    assert [path for path, text in texts.items() if secret.encode() in text] == []
    log = lab.runs / lab.plan()[0].id / "attempts" / "001" / "stdout.log"
    assert log.read_text() == "my key is ***\n"


def test_a_changed_launch_setting_reaches_a_run_that_is_not_done(lab):
    lab.sweep(STUDY)
    lab.wish(fail="mean")
    lab.apply()
    run = lab.plan()[0].id
    lab.sweep(STUDY.replace("grace_seconds=5", "grace_seconds=7"))
    lab.wish()
    assert lab.apply() == 0
    assert lab.store.spec(run)["config"]["cluster"]["grace_seconds"] == 7
    events = files.read_json_lines(lab.runs / run / "events.jsonl")[0]
    changes = [e for e in events if e["event"] == "spec changed"]
    assert [(e["key"], e["before"], e["after"]) for e in changes] == [("config.cluster.grace_seconds", 5.0, 7.0)]


def test_secrets_of_a_grid_and_of_addresses_reach_no_file(lab, monkeypatch):
    leak = "".join(("no", "where", "7"))  # in pieces: this file may itself be in the diff that a run keeps
    monkeypatch.setenv("PGPASSWORD", f"{leak}-by-name")
    lab.sweep(
        STUDY.replace("- baseline: mean", f"- {{baseline: mean, tracking.tags: [[hf_{3 * leak},{leak}-by-name]]}}")
    )
    lab.wish(say=f"cloning https://bob:{leak}@example.org/x.git")
    assert lab.apply() == 0
    texts = {path: path.read_bytes() for path in lab.runs.rglob("*") if path.is_file()}
    assert [path for path, text in texts.items() if leak.encode() in text] == []
    assert b"tracking.tags=[***,***]" in texts[lab.runs / "_sweeps" / "study.json"]


def test_an_attempt_whose_end_was_not_recorded_is_told_from_its_log(lab, capsys, monkeypatch):
    lab.sweep(STUDY)
    lab.wish(raises="[Errno 28] No space left on device", fail="mean", until=1)
    lab.apply()
    capsys.readouterr()
    for entry in lab.plan():
        path = lab.runs / entry.id / "attempts" / "001" / "attempt.json"
        files.write_json(path, {k: v for k, v in files.read_json(path).items() if k in ("attempt", "started")})
    from harness.running.apply import _failures

    lines = _failures(lab.store, [e.id for e in lab.plan()])
    assert sum("no disk space: RuntimeError: [Errno 28] No space left on device" in line for line in lines) == 3


def test_a_supervisor_on_a_full_disk_says_so_in_one_line(lab, capsys, monkeypatch):
    from harness.config import grid
    from harness.config.compose import project_folder
    from harness.planning import freeze, provenance
    from harness.planning.plan import plan
    from harness.running import supervise

    lab.sweep(STUDY)
    project = project_folder()
    entries = plan(grid.load("study"), lab.store, project, functools.partial(live.states, lab.store))
    freeze.freeze(
        grid.load("study"), entries, lab.store, project, provenance.collect(project), "tests.support.fake_trainer"
    )

    def full(path, value):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_json", full)
        assert supervise.main([str(lab.runs / entries[0].id)]) == 2
    err = capsys.readouterr().err
    assert "No space left on device; free some space, or set HARNESS_RUNS to a folder with room" in err
    assert err.count("\n") == 1
    assert lab.apply() == 0
