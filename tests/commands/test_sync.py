from __future__ import annotations

import subprocess
import sys

import pytest

from analysis.sources import wandbfile
from harness import files
from harness.commands import sync
from harness.errors import HarnessError
from harness.store.runs import Store
from tests.support import wandb_log
from tests.support.wandb_server import KEY, WandbServer

RUN = "abcdef1234"
LOG = """
import sys, wandb
folder, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
run = wandb.init(project="elsewhere", id="abcdef1234", resume="allow", mode="offline", dir=folder, group="study",
                 config={"seed": 1}, settings=wandb.Settings(console="off", silent=True))
run.define_metric("training/global_step")
for step in range(first, last + 1):
    run.log({"training/global_step": step, "loss": 1.0 / step, "from": first}, step=step)
run.finish()
"""


@pytest.fixture
def store(tmp_path):
    config = {"steps": 9, "seed": 1, "tracking": {"project": "qae", "entity": None}}
    spec = {"id": RUN, "label": "mean, tiny, seed 1", "sweep": "", "config": config, "verl": {}}
    files.write_json(tmp_path / RUN / "spec.json", spec)
    return Store(tmp_path)


@pytest.fixture
def server(monkeypatch):
    with WandbServer() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield server


def fragment(store, name, steps):
    folder = store.folder(RUN) / "wandb" / f"offline-run-{name}-{RUN}"
    folder.mkdir(parents=True)
    rows = [wandb_log.history({"training/global_step": s}, s) for s in steps]
    (folder / f"run-{RUN}.wandb").write_bytes(wandb_log.file([wandb_log.run(RUN), *rows, wandb_log.leave()]))
    return folder


def stand_in(monkeypatch, tmp_path, text):
    program = tmp_path / "wandb"
    program.write_text(
        f"#!{sys.executable}\nimport sys, pathlib\nfolders = [a for a in sys.argv if 'offline-run' in a]\n{text}\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sync, "_program", lambda: str(program))


MARK = "for f in folders:\n    for w in pathlib.Path(f).glob('*.wandb'): w.with_name(w.name + '.synced').touch()"


def test_each_fragment_is_uploaded_once(store, server, monkeypatch, tmp_path):
    log = tmp_path / "calls"
    stand_in(monkeypatch, tmp_path, f"{MARK}\nopen({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))")
    fragment(store, "20300101_000000", [1, 2, 3])
    assert sync.sync(store, [RUN]) == ({RUN: ""}, {})
    assert sync.sync(store, [RUN]) == ({}, {})
    fragment(store, "20300101_000100", [3, 4])
    assert sync.sync(store, [RUN]) == ({RUN: ""}, {})
    calls = log.read_text().splitlines()
    assert len(calls) == 2
    assert all("--project qae" in call and call.count("offline-run") == 1 for call in calls)
    assert "20300101_000100" in calls[1]


def test_what_was_not_uploaded_is_told_and_stays_pending(store, server, monkeypatch, tmp_path):
    stand_in(monkeypatch, tmp_path, "sys.stderr.write('wandb: ERROR no permission for entity x\\n'); sys.exit(1)")
    fragment(store, "20300101_000000", [1])
    assert sync.sync(store, [RUN]) == ({}, {RUN: "ERROR no permission for entity x"})
    assert [item.run for item in sync.pending(store, [RUN])] == [RUN]


def test_a_run_that_goes_on_waits(store, server, monkeypatch, tmp_path):
    from harness.store import claim

    stand_in(monkeypatch, tmp_path, MARK)
    fragment(store, "20300101_000000", [1])
    with claim.claimed(store.folder(RUN)):
        done, left = sync.sync(store, [RUN])
        assert done == {}
        assert left[RUN].startswith("running: it will be uploaded once it has ended")
        assert sync.sync(store, [RUN], everything=True) == ({RUN: ""}, {})


def test_without_a_key_or_a_server_it_says_so(store, server, monkeypatch):
    fragment(store, "20300101_000000", [1])
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(HarnessError, match=r"127\.0\.0\.1:9 cannot be reached \(.*refused"):
        sync.sync(store, [RUN])
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("NETRC", "/nonexistent")
    with pytest.raises(HarnessError, match="no API key for http://127.0.0.1:9: run `wandb login`"):
        sync.sync(store, [RUN])


@pytest.mark.slow
def test_the_real_client_uploads_a_resumed_run_as_one_history(store, server):
    for first, last in ((1, 6), (4, 9)):
        command = [sys.executable, "-c", LOG, str(store.folder(RUN)), str(first), str(last)]
        subprocess.run(command, check=True, capture_output=True)
    assert sync.sync(store, [RUN]) == ({RUN: ""}, {})
    (remote,) = server.runs.values()
    assert (remote.id, remote.project, remote.group, remote.state) == (RUN, "qae", "study", "finished")
    assert [row["training/global_step"] for row in remote.history] == list(range(1, 10))
    assert remote.summary["loss"] == pytest.approx(1 / 9)
    assert sync.sync(store, [RUN]) == ({}, {})
    assert len(remote.history) == 9


@pytest.mark.slow
def test_a_run_that_was_uploaded_after_it_failed_and_then_resumed_has_no_step_twice(store, server):
    """The real client appends whatever it is given to what is on the server."""

    def attempt(first, last):
        command = [sys.executable, "-c", LOG, str(store.folder(RUN)), str(first), str(last)]
        subprocess.run(command, check=True, capture_output=True)

    def uploaded():
        (remote,) = server.runs.values()
        return [(row["training/global_step"], row["from"]) for row in remote.history]

    attempt(1, 6)
    assert sync.sync(store, [RUN]) == ({RUN: ""}, {})
    attempt(4, 9)
    remark = "W&B keeps steps 4 to 6 as they were before the resume: what was uploaded cannot be replaced"
    assert sync.sync(store, [RUN]) == ({RUN: remark}, {})
    assert uploaded() == [*((step, 1) for step in range(1, 7)), *((step, 4) for step in range(7, 10))]
    attempt(8, 12)  # a third and a fourth attempt before the next upload
    attempt(11, 14)
    remark = remark.replace("4 to 6", "4 to 9")
    assert sync.sync(store, [RUN]) == ({RUN: remark}, {})
    assert uploaded()[9:] == [(10, 8), *((step, 11) for step in range(11, 15))]
    assert sync.sync(store, [RUN]) == ({}, {})
    assert len(uploaded()) == 14


def test_what_a_run_logs_after_an_upload_with_all_is_uploaded_later(store, server, monkeypatch, tmp_path):
    keep = f"import shutil\nfor f in folders: shutil.copytree(f, {str(tmp_path / 'got')!r}, dirs_exist_ok=True)\n"
    stand_in(monkeypatch, tmp_path, keep + MARK)
    path = fragment(store, "20300101_000000", [1, 2, 3]) / f"run-{RUN}.wandb"
    assert sync.sync(store, [RUN], everything=True) == ({RUN: ""}, {})
    rows = [wandb_log.history({"training/global_step": s}, s) for s in range(1, 6)]
    path.write_bytes(wandb_log.file([wandb_log.run(RUN), *rows, wandb_log.leave()]))
    assert sync.sync(store, [RUN]) == ({RUN: ""}, {})
    got = wandbfile.read(tmp_path / "got" / path.name)
    assert got.columns["training/global_step"].tolist() == [4, 5]
    assert sync.sync(store, [RUN]) == ({}, {})
