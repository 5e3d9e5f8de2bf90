"""Time of the report on 100 runs x 1,000 steps: `python benchmarks/report.py [--folder FOLDER]`.

Writes 10 arms x 10 seeds of synthetic runs (kept in FOLDER for the next time), then runs `python -m analysis
report` as a person would: cold (no cache, no figures), the page alone cold, and warm. Prints wall and
processor time as shares of the budgets: 10 s cold, 3 s warm, 15 MB.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.synthetic import Arm, Size, write_sweep  # noqa: E402  (after the path)

COLD, WARM, MEGABYTES = 10.0, 3.0, 15.0
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def children() -> float:
    """Processor seconds of finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(name: str, budget: float, root: Path, out: Path, cache: Path, *options: str) -> None:
    """Runs the verb once and prints what it took."""
    environment = {**os.environ, "HARNESS_RUNS": str(root), "HARNESS_CACHE": str(cache)}
    command = [sys.executable, "-m", "analysis", "report", "large", "--source", "harness", "--out", str(out), *options]
    before, start = children(), time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, used = time.perf_counter() - start, children() - before
    share = f"{wall / budget:.2f} of the budget of {budget:g} s"
    sys.stdout.write(f"{name:<28} {wall:6.2f} s, {share}; processor {used:.2f} s\n")


def main() -> None:
    """Prints one line a case, and the size of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the synthetic runs lie or are made")
    folder = parser.parse_args().folder or Path(tempfile.gettempdir()) / "qae-benchmark-report"
    root, out, cache = folder / "runs", folder / "out", folder / "cache"
    if not (root / "_sweeps").exists():
        shutil.rmtree(root, ignore_errors=True)
        arms = [Arm(), *(Arm("qae", level) for level in LEVELS)]
        size = Size(steps=1000, every=100, problems=30, train_every=50, wandb=False)
        write_sweep(root, arms, range(10), size, name="large")
    for old in (out, cache):
        shutil.rmtree(old, ignore_errors=True)
    timed("page alone, cold", COLD, root, out, cache, "--no-figures")
    shutil.rmtree(cache, ignore_errors=True)
    timed("page and figure files, cold", COLD, root, out, cache)
    timed("warm", WARM, root, out, cache)
    size = (out / "index.html").stat().st_size / 1e6
    sys.stdout.write(f"{'page':<28} {size:6.2f} MB, {size / MEGABYTES:.2f} of the budget of {MEGABYTES:g} MB\n")


if __name__ == "__main__":
    main()
