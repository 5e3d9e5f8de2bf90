"""A store of runs with the stand-in trainer that tests submit to the real cluster, and what they wait for."""

from __future__ import annotations

import functools
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import files
from harness.store.runs import Store
from tests.cluster.cluster import Cluster

ROOT = Path(__file__).parents[2]
FAKE = "tests.support.fake_trainer"


@functools.cache
def _template(trainer: str, overrides: tuple[str, ...]) -> str:
    from harness.config.compose import compose
    from harness.planning import freeze, provenance

    composed = compose(["model=tiny", "cluster=slurm", *overrides])
    empty = provenance.Provenance({"snapshot": str(ROOT)}, "")
    spec = freeze.spec("0" * 10, composed, {}, sweep="", project=ROOT, provenance=empty, trainer=trainer)
    return json.dumps(spec)


class Lab:
    """One store. `submit` hands runs to SLURM as `harness sweep` does."""

    def __init__(self, root: Path, cluster: Cluster) -> None:
        self.store = Store(root)
        self.cluster = cluster

    def run(
        self,
        *,
        steps: int = 6,
        wishes: dict[str, Any] | None = None,
        trainer: str = FAKE,
        overrides: tuple = (),
        **more,
    ) -> str:
        """Freezes a run; `wishes` is what the stand-in trainer is told, `more` are settings of the cluster."""
        settings = {
            "cpus": 1, "memory_gb": 0.5, "time_limit": "1:00:00", "signal_seconds": 30, "grace_seconds": 10.0,
            "hang_minutes": 5.0, **more,
        }  # fmt: skip
        asked = (f"steps={steps}", "save_every=2", "evaluation.every=3", *overrides)
        spec = json.loads(_template(trainer, asked))
        run = secrets.token_hex(5)
        spec |= {"id": run, "label": f"test {run}", "wishes": wishes or {}}
        need = spec["config"]["model"]["resources"]
        for key in ("cpus", "memory_gb", "nodes", "gpus"):
            need[key] = settings.pop(key, need[key])
        spec["config"]["cluster"] |= settings
        self.store.freeze(run, spec)
        return run

    def elsewhere(self, *allowed: str) -> tuple[str, ...]:
        """For the setting `exclude`: all nodes but these."""
        return tuple(f"node{i}" for i in range(1, self.cluster.nodes + 1) if f"node{i}" not in allowed)

    def submit(self, *runs: str, sweep: str = "") -> dict[str, str]:
        """Run -> job id."""
        from harness.slurm import submission, submit

        with self.cluster.here(), submission.gate(self.store.root) as lock:
            return submit.submit(self.store, runs, sweep, lock=lock).jobs

    def spec(self, run: str, **changes: Any) -> None:
        """Changes keys of a frozen spec."""
        files.write_json(self.store.folder(run) / "spec.json", {**self.store.spec(run), **changes})

    # ---- what became of them

    def step(self, run: str) -> int:
        """Last step that the trainer finished."""
        return int(self.store.heartbeat(run).get("step", 0))

    def trained(self, run: str) -> list[dict[str, Any]]:
        """What every start of the stand-in trainer noted."""
        return files.read_json_lines(self.store.folder(run) / "trained.jsonl")[0]

    def steps(self, run: str) -> list[tuple[int, int]]:
        """(attempt, step) in the order in which they were trained."""
        rows, damaged = files.read_json_lines(self.store.folder(run) / "steps.jsonl")
        assert not damaged
        return [(row["attempt"], row["step"]) for row in rows]

    def attempts(self, run: str) -> list[tuple[str, str]]:
        """(outcome, cause) of every attempt."""
        return [(str(a.get("outcome")), str(a.get("cause", ""))) for a in self.store.attempts(run)]

    def events(self, run: str, name: str) -> list[dict[str, Any]]:
        """Events of one name."""
        return [e for e in files.read_json_lines(self.store.folder(run) / "events.jsonl")[0] if e["event"] == name]

    def done(self, run: str) -> bool:
        """Whether the completion record is there."""
        return (self.store.folder(run) / "done.json").exists()

    def trouble(self, run: str) -> str:
        """All logs of a run, for the message of a failing test."""
        logs = sorted(self.store.folder(run).glob("attempts/*/*"))
        logs += sorted((self.store.root / "_slurm").glob("*/logs/*"))
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}" for path in logs if path.is_file())

    def marked(self, run: str) -> list[int]:
        """Processes of the run that are alive."""
        from harness.trainer import processes

        folders = self.store.folder(run).glob("attempts/[0-9]*")
        return [pid for folder in folders for pid in processes.marked(folder)]

    def squeue(self, job: str) -> str:
        """State in squeue, '' where it is gone."""
        text = self.cluster.run("squeue", "--noheader", "--array", "--jobs", job, "--format=%T", check=False)
        return text.split()[0] if text else ""


def wait(condition: Callable[[], Any], seconds: float = 60.0, trouble: Callable[[], str] = lambda: "") -> Any:
    """Waits for a truthy answer and returns it."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"it never happened\n{trouble()}"
        time.sleep(0.1)
    return answer


def python(cluster: Cluster, code: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    """Runs Python with the cluster in its environment."""
    environment = {**cluster.environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=environment, cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, **more,
    )  # fmt: skip
