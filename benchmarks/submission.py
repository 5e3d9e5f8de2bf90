"""What the harness adds to sbatch: `python benchmarks/submission.py [RUNS]`, where `sbatch` knows a cluster.

Submits a grid of 200 runs and the same number of empty jobs with plain sbatch, as one array and one by one, all to
start in an hour; they are cancelled at the end. Prints milliseconds a run by the clock, and what they are spent on: a
frozen spec, its links and events are written for every run and reach the disk.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.config.compose import project_folder
from harness.config.grid import Sweep, load
from harness.planning.plan import plan
from harness.running import cancel
from harness.slurm import live, schedule
from harness.store.runs import Store

SINGLE = 20
"""So many are submitted one by one: enough for a mean."""


def study(folder: Path, runs: int) -> Sweep:
    path = folder / "large.yaml"
    overrides = ["cluster=slurm", "cluster.sbatch={begin: now+1hour}"]
    path.write_text(json.dumps({"overrides": overrides, "seeds": list(range(runs))}))
    return load(str(path))


def plain(array: str = "") -> float:
    """Seconds of one sbatch call; the job is cancelled."""
    command = ["sbatch", "--parsable", "--begin=now+1hour", *([f"--array={array}"] if array else []), "--wrap", "true"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    taken = time.perf_counter() - start
    subprocess.run(["scancel", done.stdout.strip()], check=True)
    return taken


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        os.environ["HARNESS_RUNS"] = str(Path(name) / "runs")
        store, project = Store(Path(name) / "runs"), project_folder()
        sweep = study(Path(name), runs)
        start = time.perf_counter()
        entries = plan(sweep, store, project, functools.partial(live.states, store))
        planned = time.perf_counter() - start
        start = time.perf_counter()
        report = schedule.schedule(sweep, entries, store, project)
        taken = time.perf_counter() - start
        again = time.perf_counter()
        nothing = schedule.schedule(
            sweep, plan(sweep, store, project, functools.partial(live.states, store)), store, project
        )
        again = time.perf_counter() - again
        seen = live.look(store, list(report.jobs))
        cancel.scancel(live.jobs_of(seen).values())
    array, single = plain(f"0-{runs - 1}"), sum(plain() for _ in range(SINGLE)) / SINGLE
    print(f"{len(report.jobs)} runs in {len(report.arrays)} arrays; milliseconds a run")
    print(f"  plain sbatch, one by one   {1000 * single:8.2f}")
    print(f"  plain sbatch, one array    {1000 * array / runs:8.2f}")
    print(f"  harness, planning          {1000 * planned / runs:8.2f}")
    print(f"  harness, submission        {1000 * taken / runs:8.2f}   {taken / (single * runs):.2f} x one by one")
    print(f"  the same sweep again: {again:.1f} s in all, {len(nothing.jobs)} submitted")


if __name__ == "__main__":
    main()
