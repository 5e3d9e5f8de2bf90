"""A study over two ranks of the built-in task, through the real verl trainer: as small as can be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STUDY = """
question: Which of two K?
overrides: [cluster=local, model=tiny, steps=3, save_every=3, evaluation.every=3, evaluation.samples=4, "evaluation.k=[1, 4]",
            evaluation.before_training=false]
space: {rank: {K: [0.2, 0.6]}}
objective: {pass_k: 4}
budget: {runs: 2, gpu_hours: 1}
sampler: grid
seeds: {most: 1}
confirm: {trials: 1, seeds: 0}
"""
CODE = (
    "import sys; from pathlib import Path; from harness.config import grid\n"
    "grid.folder = lambda: Path(sys.argv[1])\n"
    "from harness.search.loop import ksearch\n"
    "code = ksearch('s', report=False)\n"
    "from harness.cli import main\n"
    "sys.exit(code or main(['report', 'search/s', '--out', sys.argv[2], '--no-figures']))"
)


def test_a_real_study_over_ranks_names_a_winner(tmp_path):
    (tmp_path / "sweeps" / "search").mkdir(parents=True)
    (tmp_path / "sweeps" / "search" / "s.yaml").write_text(STUDY)
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "sweeps"), str(tmp_path / "page")],
        env={**os.environ, "HARNESS_RUNS": str(tmp_path / "runs")}, cwd=Path(__file__).parents[2], capture_output=True,
        text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "by its search seeds alone" in done.stdout
    assert "trials 2 complete" in done.stdout
    html = (tmp_path / "page" / "index.html").read_text()
    assert "of 16, K in (" in html
    assert 'data-chart="zero_share"' in html
