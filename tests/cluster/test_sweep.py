"""`harness sweep` on the real cluster: many small runs, and everything that can go wrong around their submission."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from harness import files
from harness.slurm import submission
from harness.store.runs import Store
from tests.cluster.lab import ROOT, wait

pytestmark = pytest.mark.slow

STUDY = """
overrides: [cluster=slurm, model=tiny, steps=4, save_every=2, evaluation.every=4, model.resources.cpus=1,
            model.resources.memory_gb=0.5, cluster.time_limit='1:00:00', cluster.array_parallelism={parallelism},
            'cluster.exclude=[node4,node5,node6,node7,node8]']
grid:
  - baseline: qae
    baseline.K: [0.1, 0.3, 0.5, 0.7]
seeds: [{seeds}]
"""
SUBMIT = (
    "import os, sys; os.umask(0); from pathlib import Path; from harness.config import grid\n"
    "from harness.running.apply import apply; grid.folder = lambda: Path(sys.argv[1])\n"
    "sys.exit(apply('study', report=False, trainer='tests.support.fake_trainer'))"
)

PATH = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
NOBODY: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}


class Study:
    """A sweep with a store of its own, submitted by processes of their own."""

    def __init__(self, folder: Path, cluster, *, seeds: str, parallelism: int, step_seconds: float) -> None:
        self.folder, self.cluster = folder, cluster
        self.store = Store(folder / "runs")
        self.wish = json.dumps({"step_seconds": step_seconds})
        for path in (folder / "sweeps", self.store.root):
            path.mkdir(parents=True)
        for path in (folder, folder / "sweeps", self.store.root):
            path.chmod(0o777)  # for submitters that are different users
        (folder / "sweeps" / "study.yaml").write_text(STUDY.format(seeds=seeds, parallelism=parallelism))

    def submit(self, python: str = sys.executable, **more) -> subprocess.Popen[str]:
        """Starts `harness sweep study`."""
        environment = {
            **self.cluster.environment, "HARNESS_RUNS": str(self.store.root), "FAKE_TRAINER": self.wish,
            "HARNESS_CACHE": str(self.folder / "cache"), "PYTHONPATH": PATH, "HOME": str(self.folder),
        }  # fmt: skip
        return subprocess.Popen(
            [python, "-c", SUBMIT, str(self.folder / "sweeps")], env=environment, cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more,
        )  # fmt: skip

    def spans(self, run: str) -> list[tuple[float, float]]:
        """(first, last) step of every start of a run's trainer, unix seconds."""
        rows, _ = files.read_json_lines(self.store.folder(run) / "steps.jsonl")
        pids = dict.fromkeys(row["pid"] for row in rows)
        return [(min(t), max(t)) for t in ([r["time"] for r in rows if r["pid"] == pid] for pid in pids)]

    def finished(self, count: int) -> list[str]:
        """Waits until so many runs are done; each was trained once, from the first step to the last."""
        wait(
            lambda: len(self.store.ids()) == count
            and all((self.store.folder(run) / "done.json").exists() for run in self.store.ids()),
            240, self.trouble,
        )  # fmt: skip
        for run in self.store.ids():
            rows, _ = files.read_json_lines(self.store.folder(run) / "steps.jsonl")
            assert [row["step"] for row in rows] == [1, 2, 3, 4], f"{run} was trained twice"
            assert len(self.store.attempts(run)) == 1
        return self.store.ids()

    def trouble(self) -> str:
        """All logs."""
        logs = [*self.store.root.glob("_slurm/*/logs/*"), *self.store.root.glob("*/attempts/*/stdout.log")]
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-800:]}" for path in logs)


@pytest.fixture
def study(slurm_cluster, request):
    folder = slurm_cluster.folder / f"study-{time.monotonic_ns()}"

    def make(**options):
        return Study(folder, slurm_cluster, **options)

    return make


def test_an_array_of_many_runs_outlives_a_restart_of_slurmctld(study, slurm_cluster):
    sweep = study(seeds="1, 2, 3, 4", parallelism=3, step_seconds=0.5)
    submitter = sweep.submit()
    told = submitter.communicate(timeout=120)[0]
    assert submitter.returncode == 0, told
    wait(lambda: any(sweep.spans(run) for run in sweep.store.ids()), 60, sweep.trouble)
    assert len(sweep.store.ids()) == 16
    slurm_cluster.stop_controller()
    time.sleep(2)
    slurm_cluster.start_controller()
    runs = sweep.finished(16)
    events = sorted(edge for run in runs for a, b in sweep.spans(run) for edge in ((a, 1), (b, -1)))
    running = [sum(change for _, change in events[: i + 1]) for i in range(len(events))]
    assert 2 <= max(running) <= 3, "cluster.array_parallelism"
    again = sweep.submit()
    told = again.communicate(timeout=120)[0]
    assert again.returncode == 0
    assert "16 to keep" in told
    assert len(list(sweep.store.root.glob("_slurm/*/submission.json"))) == 1


@pytest.mark.parametrize("moment", ["frozen", "intent", "sbatch"])
def test_a_submitter_killed_at_any_moment_and_run_again_submits_each_run_once(study, moment):
    sweep = study(seeds="1", parallelism=4, step_seconds=0.1)
    root = sweep.store.root
    reached = {
        "frozen": lambda: len(list(root.glob("*/spec.json"))) >= 2,
        "intent": lambda: bool(submission.undecided(root)),
        "sbatch": lambda: any(root.glob("_slurm/*/submission.sh")),
    }[moment]
    first = sweep.submit(start_new_session=True)
    while first.poll() is None and not reached():
        time.sleep(0.002)
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = sweep.submit()
    told = second.communicate(timeout=120)[0]
    assert second.returncode == 0, told
    sweep.finished(4)


def test_two_users_submit_the_same_sweep_at_once(study):
    sweep = study(seeds="1", parallelism=4, step_seconds=0.3)
    python = _python_of_nobody()
    both = [sweep.submit(), sweep.submit(python, **NOBODY) if python else sweep.submit()]
    told = [process.communicate(timeout=180)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], "\n".join(told)
    sweep.finished(4)
    if python is None:
        pytest.skip("both submitters were one user: no Python here that another user can run")


def _python_of_nobody() -> str | None:
    """A Python that another user can run and that has what we have."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-c", "import harness.running.apply, pyarrow, numpy"]
        try:
            done = subprocess.run(
                command, env={"PYTHONPATH": PATH}, cwd="/", capture_output=True, timeout=60, check=False, **NOBODY
            )
        except PermissionError:
            continue
        if done.returncode == 0:
            return python
    return None
