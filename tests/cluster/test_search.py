"""A K search whose trials are jobs of the real cluster, ticked as cron would do."""

from __future__ import annotations

import time

import pytest

from harness import files
from harness.config import grid

pytestmark = pytest.mark.slow

STUDY = """
overrides: [cluster=slurm, "cluster.time_limit='0:30:00'", cluster.signal_seconds=30, steps=4, save_every=2,
            evaluation.every=2, cluster.grace_seconds=5, model.resources.memory_gb=0.5, model.resources.cpus=1]
space: {rank: {K: [0.4, 0.6]}}
budget: {runs: 4}
in_flight: 2
seeds: {most: 1}
confirm: {trials: 1, seeds: 1, compare: [mean]}
"""


def test_a_study_runs_as_jobs(in_cluster, slurm_cluster, tmp_path, monkeypatch, capsys):
    from harness.search.loop import ksearch
    from harness.store.runs import Store

    (tmp_path / "sweeps" / "search").mkdir(parents=True)
    (tmp_path / "sweeps" / "search" / "s.yaml").write_text(STUDY)
    runs = tmp_path / "runs"
    monkeypatch.setenv("HARNESS_RUNS", str(runs))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(grid, "folder", lambda: tmp_path / "sweeps")
    deadline, told = time.monotonic() + 300, ""
    while "winner: rank 10" not in told:
        assert ksearch("s", once=True, report=False, trainer="tests.support.search_trainer") == 0
        told += capsys.readouterr().out
        assert time.monotonic() < deadline, told
        time.sleep(2)
    store = Store(runs)
    jobs = {str(store.attempts(run)[0].get("job")) for run in store.ids()}
    assert len(jobs) == len(store.ids()) == 4
    assert "None" not in jobs
    for run in store.ids():
        assert len(files.read_json_lines(store.folder(run) / "trained.jsonl")[0]) == 1
    names = slurm_cluster.run("sacct", "--noheader", "-X", "--format=JobName%60")
    assert "search" in names
