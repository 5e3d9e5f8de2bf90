"""The real wandb client against a server on loopback that speaks its protocol."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.sources import filters, local
from harness.errors import HarnessError
from tests.support.shared import SHARED, needs
from tests.support.wandb_server import HANG, KEY, Remote, WandbServer

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).parents[3]
# One try is long enough for an answer that comes, and short where none does.
QUICK = {"timeout": 2, "tries": 2, "pause": 0.05, "silence": 3.0}


@pytest.fixture
def server(tmp_path, monkeypatch):
    for name, value in (
        ("WANDB_SILENT", "true"),
        ("WANDB_DIR", str(tmp_path)),
        ("WANDB_API_KEY", KEY),
        ("WANDB_CACHE_DIR", str(tmp_path / "wandb-cache")),
        ("WANDB_CONFIG_DIR", str(tmp_path)),
        ("HOME", str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)
    with WandbServer() as running:
        monkeypatch.setenv("WANDB_BASE_URL", running.url)
        yield running
        assert set(running.unknown) <= {"OrganizationCoreWeaveOrganizationID"}


def load(server, path="lab/demo", where=None, *, key=KEY, cached=None, **patience):
    from analysis.sources import api

    return api.load(
        path, where, cached=cached, patience=api.Patience(**{"timeout": 20, **patience}), base_url=server.url, key=key
    )


def rows_of(run):
    """History as {step: {metric: value}} of what was logged, NaN included."""
    found: dict[int, dict[str, float]] = {}
    for name in run.metrics:
        for step, value in run.metric(name).items():
            found.setdefault(step, {})[name] = "NaN" if math.isnan(value) else value
    return found


def same(remote, mine):
    assert rows_of(remote) == rows_of(mine)
    assert remote.nan_steps == mine.nan_steps
    assert remote.config == mine.config
    for key, value in mine.summary.items():
        assert remote.summary[key] == value or value != value
    assert (remote.id, remote.label, remote.state, remote.group, remote.tags) == (
        mine.id,
        mine.label,
        mine.state,
        mine.group,
        mine.tags,
    )


def fill(server, id="a", steps=30, **kwargs):
    run = Remote(id, "lab", "demo", state="finished", **kwargs)
    run.history = [{"_step": i, "training/global_step": i, "loss": 1 / i} for i in range(1, steps + 1)]
    server.runs["lab", "demo", id] = run
    return run


ONLINE = """
import math, os, sys, wandb
first, last = int(sys.argv[1]), int(sys.argv[2])
run = wandb.init(project="demo", entity="lab", id="online", name="QAE K=0.4", group="g", tags=["x"], resume="allow",
                 config={"baseline": {"K": 0.4, "name": "qae"}, "seed": 1, "list": [1, 2]})
for step in range(first, last + 1):
    row = {"training/global_step": step, "actor/entropy": 1 / step, "flag": True, "nested": {"a": step}}
    if step == 5: row["actor/entropy"] = math.nan
    if step == 6: row["actor/entropy"] = math.inf
    if step % 10 == 0: row["val-core/arith/acc/mean@4"] = step / 100
    run.log(row, step=step)
run.finish()
"""


def log_online(tmp_path, first, last):
    subprocess.run([sys.executable, "-c", ONLINE, str(first), str(last)], check=True, cwd=tmp_path, timeout=120)


def test_a_run_logged_online_reads_the_same_from_the_server_and_from_disk(server, tmp_path):
    log_online(tmp_path, 1, 40)
    (remote,) = load(server)
    (mine,) = local.load(tmp_path / "wandb")
    same(remote, mine)
    assert remote.history["step"].tolist() == list(range(1, 41))
    assert math.isnan(remote.metric("actor/entropy")[5])
    assert remote.metric("actor/entropy")[6] == math.inf
    assert remote.metric("nested.a")[7] == 7
    assert remote.metric("val-core/arith/acc/mean@4").to_dict() == {10: 0.1, 20: 0.2, 30: 0.3, 40: 0.4}
    assert remote.get("baseline.K") == 0.4
    log_online(tmp_path, 41, 60)  # resumed
    (remote,) = load(server)
    (mine,) = local.load(tmp_path / "wandb")
    same(remote, mine)
    assert remote.last_step == 60
    assert len(mine.files) == 2


@needs("wandb_runs")
def test_synced_runs_of_four_sdk_versions_read_the_same(server, tmp_path):
    folders = sorted(str(path.parent) for path in (SHARED / "wandb_runs").glob("*/*/*.wandb"))
    copies = []
    for folder in folders:  # sync leaves a mark beside the file
        copy = tmp_path / "copies" / Path(folder).name
        copy.mkdir(parents=True)
        (copy / next(Path(folder).glob("*.wandb")).name).write_bytes(next(Path(folder).glob("*.wandb")).read_bytes())
        copies.append(str(copy))
    subprocess.run(
        [sys.executable, "-m", "wandb", "sync", *copies], check=True, cwd=tmp_path, timeout=240, capture_output=True
    )
    mine = {run.id: run for run in local.load(SHARED / "wandb_runs")}
    remote = {run.id: run for run in load(server)}
    assert remote.keys() == mine.keys()
    for id in mine:
        same(remote[id], mine[id])


def test_no_history_is_sampled_and_none_is_doubled(server):
    fill(server, "long", 23_000)
    fill(server, "short", 3)
    server.duplicated = True
    by_id = {run.id: run for run in load(server)}
    assert by_id["long"].metric("loss").index.tolist() == list(range(1, 23_001))
    assert len(by_id["short"].history) == 3
    assert sum(call.startswith("HistoryPage") for call in server.calls) == 3 + 1


def test_a_rewound_history_is_stitched_on_the_training_step(server):
    run = fill(server)
    run.history += [{"_step": 30 + i, "training/global_step": 20 + i, "loss": 9.0} for i in range(1, 16)]
    (found,) = load(server)
    loss = found.metric("loss")
    assert loss.index.tolist() == list(range(1, 36))
    assert set(loss[21:].tolist()) == {9.0} and loss[20] == 1 / 20  # noqa: PT018
    assert found.notes == ("resumed at step 21: 10 earlier rows from there on were undone",)


def test_the_evaluation_with_which_a_resumed_run_began_is_of_its_checkpoint(server):
    """verl logs it without a training step; W&B has counted on from where the first attempt ended."""
    run = fill(server)
    run.history += [{"_step": 31, "val-core/x/acc/mean@8": 0.5}]
    run.history += [{"_step": 31 + i, "training/global_step": 20 + i, "loss": 9.0} for i in range(1, 16)]
    (found,) = load(server)
    assert found.metric("val-core/x/acc/mean@8").to_dict() == {20: 0.5}
    assert found.metric("loss").index.tolist() == list(range(1, 36))


def test_a_count_that_does_not_fit_is_noted(server, tmp_path):
    fill(server).lines = 40
    (found,) = load(server, cached=tmp_path)
    assert found.notes == ("the server counts 40 rows, 30 came",)
    assert not list(tmp_path.glob("fragments/*"))


def test_the_cache_follows_the_servers_line_count(server, tmp_path):
    run = fill(server)
    pages = lambda: [call for call in server.calls if call.startswith("HistoryPage")]  # noqa: E731
    first = load(server, cached=tmp_path)[0]
    server.calls.clear()
    again = load(server, cached=tmp_path)[0]
    assert pages() == []
    assert rows_of(again) == rows_of(first)
    run.history += [{"_step": i, "training/global_step": i, "loss": 0.0, "new": math.nan} for i in (31, 32)]
    grown = load(server, cached=tmp_path)[0]
    assert pages() == ["HistoryPage 30"]
    assert grown.last_step == 32
    assert grown.nan_steps == {"new": (31, 32)}
    # Rewound on the server, to as many rows more as there are after the last known step.
    run.history = [{"_step": i, "training/global_step": i, "loss": -1.0} for i in range(1, 41)]
    server.calls.clear()
    rewound = load(server, cached=tmp_path)[0]
    assert pages() == ["HistoryPage 32", "HistoryPage 0"]
    assert set(rewound.metric("loss")) == {-1.0}


def test_filters_are_applied_before_histories_are_fetched(server):
    for id, K in (("a", 0.2), ("b", 0.4), ("c", 0.4)):
        fill(server, id, config={"baseline": {"K": K}}, group="g" if id != "c" else "h")
    found = load(server, where=filters.parse('{"config.baseline.K": {"$in": [0.4]}, "group": "g"}'))
    assert [run.id for run in found] == ["b"]
    assert sum(call.startswith("HistoryPage") for call in server.calls) == 1


@pytest.mark.parametrize("operation", ["Viewer", "Runs", "HistoryPage"])
@pytest.mark.parametrize("status", [429, 500])
def test_a_server_that_refuses_for_a_while_is_asked_again(server, operation, status):
    fill(server)
    server.fail(operation, status, times=2)
    (found,) = load(server, timeout=3, tries=5, pause=0.05)
    assert found.last_step == 30
    assert server.calls.count(operation) + sum(call.startswith(f"{operation} ") for call in server.calls) > 2


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "HTTP 429, too many requests"), (503, "HTTP 503"), (HANG, "no answer in 5 s")]
)
def test_a_server_that_stays_down_is_called_unreachable(server, status, reason):
    fill(server)
    server.fail("*", status)
    with pytest.raises(HarnessError, match="unreachable") as caught:
        load(server, **QUICK)
    assert reason in str(caught.value)
    assert "key" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_refused_connection_is_called_unreachable(server):
    url, _ = server.url, server.__exit__()
    server.fail("*", 500)
    from analysis.sources import api

    with pytest.raises(HarnessError, match="unreachable .connection refused"):
        api.load("lab/demo", patience=api.Patience(**QUICK), base_url=url, key=KEY)


def test_a_bad_key_is_called_a_bad_key(server):
    fill(server)
    with pytest.raises(HarnessError, match="refuses the key .HTTP 401"):
        load(server, key="f" * 40, **QUICK)
    assert server.calls.count("Viewer") == 1  # asking again would not help


@pytest.mark.parametrize("path", ["lab/absent", "absent/demo"])
def test_what_is_not_there_is_called_so(server, path):
    fill(server)
    with pytest.raises(HarnessError, match=f"{path}.*does not exist"):
        load(server, path, **QUICK)


def test_paths_and_filters_are_checked_before_anything_is_asked(server):
    with pytest.raises(HarnessError, match="write wandb:ENTITY/PROJECT"):
        load(server, "demo")
    with pytest.raises(HarnessError, match=r"\$inn"):
        load(server, where={"seed": {"$inn": [1]}})
    with pytest.raises(HarnessError, match="1 to 4"):
        load(server, workers=9)
    assert server.calls == []


def test_a_hang_in_the_middle_ends_the_command_with_one_line(server, tmp_path):
    """The SDK waits for ever in a scan: the program must end all the same."""
    fill(server)
    server.fail("HistoryPage", HANG)
    code = (
        "import sys; from analysis import cli; from analysis.sources import api;"
        "old = api.Patience; api.Patience = lambda: old(timeout=5, silence=2.0);"
        "sys.exit(cli.main(['runs', '--source', 'wandb:lab/demo']))"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=REPOSITORY,
        env={**os.environ, "HARNESS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if line.startswith("error:")] == [
        f"error: W&B at {server.url} is unreachable (no row in 2 s): check the network and WANDB_BASE_URL, try later, "
        "or read the run folders with --source local"
    ]
    assert "Traceback" not in done.stderr
    assert time.monotonic() - began < 60


def test_without_a_login_the_remedy_is_named(server, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY")
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "runs", "--source", "wandb:lab/demo"],
        text=True,
        timeout=100,
        capture_output=True,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ),
    )
    assert done.returncode == 2
    assert "error: no W&B key: run `wandb login`" in done.stderr
    assert "Traceback" not in done.stderr


def test_rows_of_other_kinds_cost_themselves_alone(server):
    odd = fill(server, steps=3, name="</script><b>", config={"baseline": "x", "seed": [1]})
    odd.history += [
        {"_step": 4, "training/global_step": "Infinity", "loss": 9},
        {"_step": 6, "training/global_step": 1e300, "loss": 9},
        {"_step": 7, "training/global_step": 7, "loss": "Infinity", "text": "a", "none": None, "list": [1]},
    ]
    (run,) = load(server)
    assert run.metric("loss").to_dict() == {1: 1.0, 2: 0.5, 3: 1 / 3, 4: 9.0, 7: math.inf}
    assert set(run.metrics) == {"training/global_step", "loss"}
    assert any("1 rows have no step and are left out" in note for note in run.notes)
