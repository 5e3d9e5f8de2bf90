"""A store that version 0.1 wrote, before the files moved to their rooms, opens as if today's had written it.

tests/data/store_0_1.tar.xz: two runs that the real trainer finished, one that waits in SLURM's queue. Checkpoints, W&B's
files and most of the logs were left out, paths and nothing else were changed.
"""

from __future__ import annotations

import importlib.util
import re
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from harness import cli
from harness.running import supervise

ARCHIVE = Path(__file__).parents[1] / "data" / "store_0_1.tar.xz"
MEAN, QAE, QUEUED = "f46878ec8b", "c283562183", "19d0e55bdd"
STUDY = """
overrides: [steps=2, save_every=1, evaluation.every=2, evaluation.samples=4, "evaluation.k=[1,4]"]
grid:
  - baseline: [mean]
  - {baseline: qae, baseline.K: [0.4]}
seeds: [1]
"""


@pytest.fixture
def previous(lab):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(lab.runs.parent, filter="data")
    lab.sweep(STUDY, name="previous")
    return lab


def printed(capsys, *words):
    assert cli.main(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_what_was_done_is_done_under_the_same_ids(previous, capsys):
    out = printed(capsys, "plan", "previous")
    assert re.search(rf"keep +{MEAN} .*done, 2 of 2 steps", out)
    assert re.search(rf"keep +{QAE} .*done, 2 of 2 steps", out)
    assert out.endswith("2 to keep\n")
    out = printed(capsys, "status", "previous")
    assert "previous: 2 done" in out
    assert "0.434" in out
    assert "baseline.rank                 None  ->  7" in printed(capsys, "why", MEAN[:3], QAE[:3])


def test_frozen_names_of_modules_lead_to_modules(previous):
    for run in (MEAN, QAE, QUEUED):
        assert "harness.task" in (previous.runs / run / "spec.json").read_text()
        for command in supervise._commands(previous.runs / run, previous.store.spec(run), 1):
            assert importlib.util.find_spec(command[2]) is not None, command


def test_a_job_of_the_previous_version_is_known_in_the_queue_and_can_be_cancelled(previous, slurm, capsys):
    out = printed(capsys, "status", QUEUED)
    assert f"{QUEUED}  qae       0.3" in out
    script = next((previous.runs / "_slurm").glob("*/submission.sh")).read_text()
    modules = set(re.findall(r"-m (harness\.[\w.]+)", script))
    assert modules == {"harness.slurm.job", "harness.slurm.after"}
    for name in modules:  # an ending job of that version may write them for today's code
        assert importlib.util.find_spec(name) is not None
    assert cli.main(["cancel", QUEUED]) == 0


@pytest.mark.slow
def test_its_outcomes_make_a_page(previous, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HARNESS_REPORTS", str(tmp_path / "reports"))
    printed(capsys, "report", "previous", "--no-figures")
    rows = pq.read_table(previous.runs / QAE / "outcomes" / "eval" / "step_000002.parquet").to_pandas()
    right = 100 * rows.groupby("benchmark")["accuracy"].mean()
    table = pd.read_csv(tmp_path / "reports" / "previous" / "table.csv")
    found = table[(table["arm"].str.startswith("QAE K=0.4")) & (table["k"] == 1)].set_index("benchmark")["percent"]
    for benchmark, share in right.items():
        assert found[benchmark] == pytest.approx(share, abs=0.01), table
