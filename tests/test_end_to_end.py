"""The main job as its user does it: a small sweep through the real verl trainer, killed in the middle, and its report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from harness import files
from harness.config.compose import project_folder

pytestmark = pytest.mark.slow

CHROMIUM = Path("/usr/bin/chromium")
SECRET = "planted0123456789abcdef0123456789abcdef01"
TWIN = "tiny/gspo_8b"
"""The study that is trained: the twin of one of the paper's, in fewer steps, with checkpoints to be killed between."""
SHORTER = ["steps=6", "evaluation.every=3", "save_every=2", "token_steps=[2]", "cluster=local"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A finished sweep whose whole process tree was killed once."""
    folder = tmp_path_factory.mktemp("sweep")
    study = folder / "study.yaml"
    content = yaml.safe_load((project_folder() / "sweeps" / f"{TWIN}.yaml").read_text())
    changed = {setting.partition("=")[0] for setting in SHORTER}
    content["overrides"] = [s for s in content["overrides"] if s.partition("=")[0] not in changed] + SHORTER
    study.write_text(yaml.safe_dump(content))
    environment = {
        **os.environ,
        "HARNESS_RUNS": str(folder / "runs"),
        "HARNESS_REPORTS": str(folder / "reports"),
        "WANDB_API_KEY": SECRET,
        "HF_TOKEN": f"hf_{SECRET}",
    }
    command = [sys.executable, "-m", "harness", "sweep", str(study)]
    first = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    killed = _kill_in_the_middle(folder / "runs", first)
    second = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert second.returncode == 0, second.stdout[-3000:] + second.stderr[-3000:]
    return folder, killed, second.stdout


def _kill_in_the_middle(runs: Path, process: subprocess.Popen[bytes]) -> str:
    """SIGKILL to the sweep, its supervisor and the trainer once a run has a checkpoint; returns that run's id."""
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        for tracker in runs.glob("*/checkpoints/latest_checkpointed_iteration.txt"):
            run = tracker.parent.parent
            if files.read_json(run / "heartbeat.json")["step"] < 6:
                victims = [process.pid, files.read_json(run / "claim.json")["pid"], *_marked(run)]
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
                process.communicate()
                return run.name
        if process.poll() is not None:
            raise AssertionError(process.communicate()[0].decode()[-3000:])
        time.sleep(0.1)
    raise AssertionError("no checkpoint appeared")


def _marked(run: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"HARNESS_ATTEMPT={run}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_every_run_is_done_and_the_killed_one_went_on(sweep):
    folder, killed, _ = sweep
    points = files.read_json(folder / "runs" / "_sweeps" / "study.json")["points"]
    assert [point["label"].split(",")[0] for point in points] == ["mean (GRPO)", "QAE K=0.4"]
    for point in points:
        run = folder / "runs" / point["id"]
        assert files.read_json(run / "done.json")["step"] == 6
        assert [p.name for p in sorted((run / "outcomes" / "train").iterdir())] == [
            f"step_{step:06d}.parquet" for step in range(1, 7)
        ]
        assert pq.read_table(run / "outcomes" / "eval" / "step_000006.parquet").num_rows % 16 == 0
        assert _marked(run) == []
    attempts = sorted((folder / "runs" / killed / "attempts").iterdir())
    assert len(attempts) == 2
    assert "outcome" not in files.read_json(attempts[0] / "attempt.json"), "a killed attempt has no end"
    assert files.read_json(attempts[1] / "attempt.json")["outcome"] == "done"


def test_the_shares_of_the_advantage_add_up_and_a_quantile_zeroes_one_side(sweep):
    folder, _, _ = sweep
    for point in files.read_json(folder / "runs" / "_sweeps" / "study.json")["points"]:
        rows, damaged = files.read_json_lines(folder / "runs" / point["id"] / "metrics.jsonl")
        assert damaged == 0
        assert [row["step"] for row in rows] == list(range(7)), "step 0 is the evaluation before training"
        quantile = "QAE" in point["label"]
        for row in rows[1:]:
            m = row["metrics"]
            shares = [m[f"advantage/{side}_share"] for side in ("zero", "positive", "negative")]
            assert sum(shares) == pytest.approx(1, abs=1e-6)
            assert m["group/hard_share"] + m["group/easy_share"] == pytest.approx(1)
            # dynamic sampling keeps mixed groups only: the mean gives every response a sign, the quantile one side
            assert (m["advantage/zero_share"] > 0) == quantile


def test_the_study_is_the_one_that_its_file_says(sweep):
    folder, _, _ = sweep
    for point in files.read_json(folder / "runs" / "_sweeps" / "study.json")["points"]:
        run = folder / "runs" / point["id"]
        actor = files.read_json(run / "spec.json")["verl"]["actor_rollout_ref"]["actor"]
        assert actor["policy_loss"]["loss_mode"] == "gspo"
        assert (actor["clip_ratio_low"], actor["clip_ratio_high"]) == (3e-4, 4e-4)
        rows, _ = files.read_json_lines(run / "metrics.jsonl")
        clipped = [row["metrics"]["actor/pg_clipfrac"] for row in rows[1:]]
        assert max(clipped) > 0.05, "the tight clip of whole responses bites"


def test_secrets_are_nowhere(sweep):
    folder, _, out = sweep
    assert SECRET not in out
    texts = [p for p in folder.rglob("*") if p.is_file() and "checkpoints" not in p.parts]
    assert len(texts) > 40
    assert [p for p in texts if SECRET.encode() in p.read_bytes()] == []


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no /usr/bin/chromium: apt-get install chromium")
def test_the_report_opens_with_its_figures(sweep):
    from playwright.sync_api import sync_playwright

    folder, _, out = sweep
    page_file = folder / "reports" / "study" / "index.html"
    assert str(page_file) in out
    requests: list[str] = []
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.on("request", lambda r: requests.append(r.url))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(page_file.as_uri())
        page.wait_for_selector(".js-plotly-plot .scatterlayer path", timeout=30_000)
        text = page.inner_text("body")
        browser.close()
    assert errors == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)
    for words in ("Entropy", "pass@1", "pass@16", "QAE K=0.4"):
        assert words in text
