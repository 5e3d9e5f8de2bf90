from __future__ import annotations

import re
import shutil

import pytest

from harness import cli, files
from harness.commands.doctor import checks, probe
from harness.commands.doctor.checks import FAILURE, OK, WARNING
from harness.config.compose import compose
from harness.store.runs import Store

PARTITIONS = """PartitionName=gpu AllowGroups=ALL Default=YES MaxTime=1-00:00:00 State=UP TotalNodes=4
PartitionName=debug Default=NO MaxTime=01:00:00 State=DOWN TotalNodes=1
"""
CONFIG = {
    "SLURM_VERSION": "22.05.8", "ClusterName": "fake", "AccountingStorageType": "accounting_storage/slurmdbd",
    "PreemptMode": "REQUEUE", "PreemptType": "preempt/partition_prio",
    "SlurmctldParameters": "preempt_send_user_signal", "JobRequeue": "1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def healthy(slurm):
    slurm.configure(**CONFIG)
    slurm.wish(partitions=PARTITIONS, longest="normal|\nhigh|\nshort|00:30:00\n", associations="team|team||||\n")


def found(lab, *overrides):
    return {f.subject: f for f in checks.findings(Store(lab.runs), compose(["cluster=slurm", *overrides]))}


def test_a_healthy_cluster(lab, capsys):
    assert cli.main(["doctor", "cluster=slurm"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r"(ok|warning) ", line) for line in lines), lines
    assert "ok       SLURM          22.05.8, fake" in lines


@pytest.mark.parametrize(
    ("overrides", "subject", "level", "text"),
    [
        (
            ["cluster.partition=gpux"],
            "partition",
            FAILURE,
            "gpux does not exist: cluster.partition is one of debug, gpu",
        ),
        (["cluster.partition=debug", "cluster.time_limit='1:00:00'"], "partition", WARNING, "debug is DOWN"),
        (["cluster.time_limit='2-00:00:00'"], "partition", FAILURE, "set cluster.time_limit=1-00:00:00"),
        (["cluster.qos=hihg"], "QOS", FAILURE, "cluster.qos is one of high, normal, short"),
        (["cluster.qos=short"], "QOS", FAILURE, "ends jobs after 00:30:00, cluster.time_limit is 24:00:00: set"),
        ([], "account", OK, "team, your default"),
        (["cluster.account=other"], "account", WARNING, "none of yours, and nobody checks it here: cluster.account is"),
        (["cluster.qos=high"], "QOS", OK, "high exists"),
        (["model=qwen3_8b_base"], "vLLM", FAILURE, "is not installed: pip install 'vllm"),
        (["model=qwen3_8b_base", "model.path=/no/such"], "model", FAILURE, "/no/such does not exist"),
        (["model=qwen3_8b_base", "model.parameters=9000000000000"], "disk", FAILURE, "set HARNESS_RUNS"),
        (["data=gsm8k_train", "evaluation=gsm8k"], "data", FAILURE, "harness data prepare gsm8k_train"),
        (["tracking=none"], "W&B", OK, "tracking=none needs no network"),
    ],
)
def test_what_would_stop_a_run(lab, monkeypatch, overrides, subject, level, text):
    monkeypatch.setenv("HARNESS_DATA", str(lab.runs / "nothing"))
    finding = found(lab, *overrides)[subject]
    assert (finding.level, text in str(finding)) == (level, True), str(finding)


def test_online_tracking_needs_a_key_and_a_server(lab, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", "/nonexistent")
    assert "wandb login, or tracking=offline" in str(found(lab, "tracking=online")["W&B"])
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    finding = found(lab, "tracking=online")["W&B"]
    assert finding.level == FAILURE
    assert "http://127.0.0.1:9 cannot be reached" in finding.text


@pytest.mark.parametrize(
    ("config", "subject", "level", "text"),
    [
        ({"AccountingStorageType": "accounting_storage/none"}, "accounting", WARNING, "is off"),
        ({"SlurmctldParameters": ""}, "preemption", WARNING, "lower save_every"),
        ({"PreemptType": "preempt/none", "PreemptMode": "OFF"}, "preemption", OK, "off"),
        ({"MaxArraySize": "11"}, "limits", OK, "arrays of up to 10 runs"),
        ({"AccountingStorageType": "accounting_storage/none"}, "limits", OK, "arrays of up to 1000 runs"),
    ],
)
def test_how_the_cluster_is_set_up(lab, slurm, config, subject, level, text):
    slurm.configure(**config)
    finding = found(lab)[subject]
    assert (finding.level, text in str(finding)) == (level, True), str(finding)


def test_a_request_that_slurm_refuses_is_told_in_its_words(lab, slurm):
    slurm.wish(refuse="Requested node configuration is not available")
    finding = found(lab, "cluster.cpus=9999")["request"]
    assert str(finding) == (
        "failure  request        9999 cores, 6 GiB, 24 hours: sbatch: Requested node configuration is not available: "
        "gpu's nodes have 32 cores, 195 GiB, gpu:8"
    )
    assert slurm.jobs == {}


def test_a_cluster_that_does_not_answer_is_one_line(lab, slurm, capsys):
    slurm.wish(outage=True)
    assert cli.main(["doctor", "cluster=slurm"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("failure  SLURM          scontrol: Unable to contact slurm controller")
    assert "verl" in out  # what needs no SLURM is told all the same


def test_the_probe_tells_what_the_nodes_lack():
    report = {
        "node": "node1", "rank": 0, "python": "/usr/bin/python", "versions": {"verl": None, "torch": "2", "ray": "2"},
        "gpus": 7, "tmp": "/tmp", "free_tmp_gb": 1.0, "skew_seconds": 90.0, "wandb": "no route",
        "missing": {"the cache": "/c is another folder there than here"},
    }  # fmt: skip
    lines = [str(finding) for finding in probe.judge([report], gpus=8)]
    assert [line.split()[0] for line in lines] == [
        "failure",
        "failure",
        "warning",
        "warning",
        "failure",
        "failure",
        "ok",
    ]
    assert "7 of 8 GPUs are visible" in lines[0]
    assert "verl cannot be found by /usr/bin/python" in lines[1]
    assert "the cache: /c is another folder there than here: put it on a folder that all nodes share" in lines[4]
    assert "W&B: no route: tracking=offline" in lines[5]
    assert "the runs folder can be written from there" in lines[6]


def test_the_probe_knows_a_cache_that_is_another_folder_on_the_node(lab, tmp_path):
    asked = {"cache": str(tmp_path / "cache"), "paths": {"the model": "/no/such"}, "wandb": False}
    files.write_json(tmp_path / "asked.json", asked)
    (tmp_path / "cache").mkdir()
    assert probe.look(tmp_path)["missing"] == {
        "the model": "/no/such is not there", "the cache": f"{tmp_path}/cache is another folder there than here",
    }  # fmt: skip
    (tmp_path / "cache" / f".probe.{tmp_path.name}").touch()
    assert list(probe.look(tmp_path)["missing"]) == ["the model"]


def test_a_probe_that_leaves_nothing_says_why(lab, slurm):
    def fail(_):
        for job in slurm.jobs:
            slurm.set(job, "FAILED")

    first, last = probe.send(Store(lab.runs), compose(["cluster=slurm"]), sleep=fail)
    assert first.level == OK
    assert (last.level, last.text) == (FAILURE, "the job ended as FAILED and left nothing")
    text = next(iter(slurm.jobs.values()))["script"]
    assert "harness.commands.doctor.probe" in open(text).read()  # noqa: SIM115


def test_a_probe_reports_from_every_node(lab, slurm, monkeypatch):
    composed = compose(["cluster=slurm", "cluster.nodes=2"])

    def nodes(_):
        place = next((lab.runs / "_slurm").glob("*/submission.sh")).parent
        for rank in range(2):
            monkeypatch.setenv("SLURM_PROCID", str(rank))
            files.write_json(place / f"node.{rank}.json", probe.look(place))

    found = list(probe.send(Store(lab.runs), composed, sleep=nodes))
    assert [f.level for f in found] == [OK, OK, OK]


def test_a_probe_that_waits_too_long_is_cancelled(lab, slurm):
    *_, last = probe.send(Store(lab.runs), compose(["cluster=slurm"]), wait=0.0)
    assert (last.level, "(Priority)" in last.text) == (WARNING, True)
    assert {job["state"] for job in slurm.jobs.values()} == {"CANCELLED"}


def test_after_a_failure_no_probe_is_sent(lab, slurm, capsys):
    assert cli.main(["doctor", "cluster=slurm", "cluster.partition=gpux", "--job"]) == 1
    assert "warning  probe          was not sent: mend the failures first" in capsys.readouterr().out
    assert slurm.jobs == {}


def test_where_a_probe_looks_nothing_is_warned_of_before(lab, capsys):
    subjects = {f.subject for f in checks.findings(Store(lab.runs), compose(["cluster=slurm"]), job=True)}
    assert "shared folders" not in subjects
    assert "shared folders" in found(lab)


@pytest.mark.parametrize(
    ("partition", "level", "text"),
    [
        ("PreemptMode=OFF GraceTime=0", OK, "off in partition gpu"),
        ("PreemptMode=REQUEUE GraceTime=0", WARNING, "with no GraceTime in partition gpu: a preempted run loses"),
        ("PreemptMode=REQUEUE GraceTime=60", OK, "with a signal ahead"),
    ],
)
def test_preemption_is_a_matter_of_the_partition(lab, slurm, partition, level, text):
    slurm.wish(partitions=PARTITIONS.replace("Default=YES", f"Default=YES {partition}"))
    finding = found(lab)["preemption"]
    assert (finding.level, text in str(finding)) == (level, True), str(finding)


def test_accounting_that_is_away_leaves_the_limits_unknown(lab, slurm):
    slurm.configure(AccountingStorageEnforce="associations,limits,qos")
    slurm.wish(outage="sacctmgr")
    told = found(lab)
    assert told["limits"].level == told["account"].level == WARNING
    assert "your own are not known (sacctmgr: Unable to contact slurm controller" in told["limits"].text


def test_without_slurm_there_is_no_probe(lab, capsys):
    assert cli.main(["doctor", "cluster=local", "--job"]) == 2
    assert "error: doctor --job: there is no SLURM here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("free", "overrides", "level", "text"),
    [
        (40, [], OK, "40 GiB free, the checkpoints of a run take less than 1"),
        (3, [], FAILURE, "less than 1"),
        (2000, ["model=qwen3_8b_base", "recipe=dapo"], WARNING, "GiB free, the checkpoints of a run take up to"),
    ],
)
def test_disk_is_reckoned_from_the_checkpoints(lab, monkeypatch, free, overrides, level, text):
    usage = shutil.disk_usage("/")._replace(free=free * 2**30)
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: usage)
    [finding] = checks.disk(Store(lab.runs), compose(["cluster=slurm", *overrides]))
    assert finding.level == level
    assert text in finding.text
