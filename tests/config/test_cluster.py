from __future__ import annotations

import pytest

from harness.config.cluster import Cluster, minutes
from harness.config.compose import compose, project_folder
from harness.errors import HarnessError
from harness.planning.signature import signature


@pytest.mark.parametrize(
    "text, expected",
    [("4:00:00", 240), ("2-00:00:00", 2880), ("1-12:30", 2190), ("90:00", 90), ("0:30", 1), ("0:00:01", 1)],
)
def test_minutes_of_a_slurm_time(text, expected):
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["90", "1-0", "4h", "", "4:0:0"])
def test_a_time_that_slurm_or_yaml_would_read_differently_is_refused(text):
    with pytest.raises(HarnessError, match="in quotes"):
        minutes(text)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"name": "slrum"}, "did you mean slurm"),
        ({"signal_seconds": 7200, "time_limit": "1:00:00"}, "cluster.signal_seconds=7200: must lie between"),
        ({"sbatch": {"job_name": "x"}}, r"cluster\.sbatch\.job_name=x: the harness sets this one itself"),
        ({"nodes": 0}, "cluster.nodes=0: 1 or more"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(HarnessError, match=message):
        Cluster(**{"name": "slurm", **settings})


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "answer, launcher",
    [
        ("scontrol: fatal: Could not establish a configuration source", "local"),
        ("Slurmctld(primary) at login1 is DOWN", "slurm"),
    ],
)
def test_programs_without_a_cluster_count_for_nothing(tmp_path, monkeypatch, answer, launcher):
    program(tmp_path / "sbatch", "exit 0")
    program(tmp_path / "scontrol", f"echo '{answer}' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HARNESS_CLUSTER", raising=False)
    assert Cluster(name="auto").launcher == launcher


def test_what_auto_means_can_be_set(monkeypatch):
    monkeypatch.setenv("HARNESS_CLUSTER", "slurm")
    assert Cluster(name="auto").launcher == "slurm"
    assert Cluster(name="local").launcher == "local"
    monkeypatch.setenv("HARNESS_CLUSTER", "slrum")
    with pytest.raises(HarnessError, match="HARNESS_CLUSTER=slrum: did you mean slurm"):
        Cluster(name="auto").launcher  # noqa: B018


def test_auto_is_slurm_where_sbatch_is_on_the_path(tmp_path, monkeypatch):
    monkeypatch.delenv("HARNESS_CLUSTER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Cluster(name="auto").launcher == "local"
    program(tmp_path / "sbatch", "exit 0")
    assert Cluster(name="auto").launcher == "slurm"
    assert Cluster(name="local").launcher == "local"


def test_the_clusters_own_resources_reach_verl_but_not_the_identity():
    plain = compose(["cluster=slurm"])
    wide = compose(
        ["cluster=slurm", "cluster.nodes=2", "cluster.memory_gb=9", "cluster.partition=a", "cluster.sbatch={qos: x}"]
    )
    assert wide.settings.model.resources.nodes == 2
    assert wide.settings.model.resources.memory_gb == 9
    assert wide.asked["trainer"]["nnodes"] == 2
    assert signature(plain, project_folder()) == signature(wide, project_folder())


def test_auto_takes_the_settings_of_slurm_yaml():
    auto, slurm = compose(["cluster=auto"]).settings.cluster, compose(["cluster=slurm"]).settings.cluster
    assert (auto.name, slurm.name) == ("auto", "slurm")
    assert auto.time_limit == slurm.time_limit
    assert auto.signal_seconds == slurm.signal_seconds


def test_local_needs_none_of_slurms_settings():
    cluster = compose(["cluster=local"]).settings.cluster
    assert (cluster.name, cluster.sbatch, cluster.setup) == ("local", {}, ())
