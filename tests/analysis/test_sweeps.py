"""A sweep is the same whatever its curves are read from."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from analysis import sweeps
from analysis.comparison import ablation as studies
from harness.errors import HarnessError
from tests.support import wandb_log as log
from tests.support.shared import SHARED, needs
from tests.support.synthetic import Arm, Size, write_run, write_sweep


def test_w_and_b_files_and_the_own_log_give_the_same(smoke_root, monkeypatch):
    monkeypatch.setenv("HARNESS_RUNS", str(smoke_root))
    own, wandb = sweeps.load("smoke", "harness"), sweeps.load("smoke", "local")
    assert [run.source for run in (own.runs[0], wandb.runs[0])] == ["harness", "local"]
    assert (own.question, own.against, own.missing) == ("Does QAE keep the entropy?", "mean", ())
    for a, b in zip(own.runs, wandb.runs, strict=True):
        assert a.id == b.id
        for name in [name for name in a.metrics if not name.startswith("_")]:
            one, two = a.metric(name), b.metric(name)
            assert one.index.tolist() == two.index.tolist(), name
            assert np.array_equal(one, two), name


def test_a_filter_and_a_root_of_ones_own(smoke_root, monkeypatch):
    monkeypatch.delenv("HARNESS_RUNS", raising=False)
    found = sweeps.load("smoke", f"harness:{smoke_root}", "baseline.K=0.4")
    assert {run.get("baseline.K") for run in found.runs} == {0.4}
    assert len(found.runs) == 3


def test_a_grid_point_without_a_folder_is_missing(tmp_path):
    write_sweep(tmp_path, [Arm()], [1], Size(steps=4, every=2, problems=2, wandb=False))
    record = tmp_path / "_sweeps" / "smoke.json"
    content = json.loads(record.read_text())
    content["points"].append({"id": "ffffffffff", "label": "QAE K=0.9, tiny, seed 1", "overrides": []})
    record.write_text(json.dumps(content))
    assert sweeps.load("smoke", f"harness:{tmp_path}").missing == ("QAE K=0.9, tiny, seed 1",)


@needs("logs/grpo_runs")
def test_logs_of_other_people_are_a_sweep_too():
    [path] = (SHARED / "logs/grpo_runs").glob("*7_5_plus_kl*.csv")
    found = sweeps.load("theirs", f"csv:{path}")
    assert (found.sweep, len(found.runs)) == ("theirs", 1)
    assert studies.health_of(found.runs[0]).verdict == "exploded"


def test_an_unknown_sweep_names_the_nearest(smoke_root):
    with pytest.raises(HarnessError, match="no sweep 'smoky'; did you mean smoke"):
        sweeps.load("smoky", f"local:{smoke_root}")


@needs("wandb_runs")
def test_w_and_b_folders_that_the_harness_did_not_write_are_a_sweep_too(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    found = sweeps.load("theirs", f"local:{SHARED / 'wandb_runs/0.31.0'}")
    assert (found.sweep, sorted(run.id for run in found.runs)) == ("theirs", ["fx31mean", "fx31qae"])
    assert len(sweeps.load("theirs", f"local:{SHARED / 'wandb_runs'}", "baseline.K=0.4").runs) == 8


def test_runs_of_the_sweep_s_w_and_b_group_are_preferred(tmp_path):
    for name, group in (("a", "one"), ("b", "two")):
        start = log.run(name, 1, {"seed": 1}, name=name, group=group)
        log.write(tmp_path, name, [start, *log.rows(1, 3, loss=float), log.leave()])
    assert [run.id for run in sweeps.load("two", f"local:{tmp_path}").runs] == ["b"]
    assert [run.id for run in sweeps.load("other", f"local:{tmp_path}").runs] == ["a", "b"]


def test_what_to_compare_with_is_asked_for_stated_or_mean(smoke_root):
    found = sweeps.load("smoke", f"harness:{smoke_root}")
    assert (found.baseline(), found.baseline("K=0.4")) == ("mean", "K=0.4")
    with pytest.raises(HarnessError, match="against 'maen': no such arm; did you mean mean"):
        found.baseline("maen")
    stated = replace(found, against="QAE K=0.4")
    assert stated.baseline() == "QAE K=0.4"
    left = replace(stated, runs=tuple(run for run in found.runs if run.get("baseline.name") == "mean"))
    assert left.baseline() == "mean"  # a filter took the arm that the file names


WRITE = """
import json, sys, wandb
settings = wandb.Settings(silent=True, x_disable_meta=True, x_disable_stats=True)
run = wandb.init(project="qae", id=sys.argv[1], dir=sys.argv[2], mode="offline", group="smoke", settings=settings)
for row in json.load(sys.stdin):
    run.log(row)
run.finish()
"""


@pytest.mark.slow
def test_a_file_that_the_real_sdk_wrote(tmp_path):
    root = tmp_path / "runs"
    folder = write_run(root, Arm("qae", 0.4), 1, Size(steps=12, every=6, problems=4, wandb=False))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    metrics = json.dumps([row["metrics"] for row in rows])
    # A process of its own: this one's W&B settings and service are those of whatever test used them first.
    subprocess.run([sys.executable, "-c", WRITE, folder.name, str(folder)], input=metrics, text=True, check=True)
    (root / "_sweeps").mkdir()
    points = [{"id": folder.name, "label": "QAE K=0.4, tiny, seed 1", "overrides": []}]
    (root / "_sweeps" / "real.json").write_text(json.dumps({"sweep": "real", "points": points}))
    [own], [sdk] = (sweeps.load("real", f"{kind}:{root}").runs for kind in ("harness", "local"))
    assert sdk.source == "local"
    for name in [name for name in own.metrics if not name.startswith("_")]:
        assert np.array_equal(own.metric(name), sdk.metric(name)), name


def test_loading_a_sweep_needs_no_trainer(smoke_root):
    code = (
        f"import sys; from analysis import sweeps; sweeps.load('smoke', 'local:{smoke_root}');"
        "assert not {'torch', 'verl', 'ray', 'wandb', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
