"""Time of planning and of watching a large grid: `python benchmarks/planning.py [RUNS]`.

Plans a grid of 1,000 distinct runs, freezes them, and shows their status, each in a fresh process as on a command line;
prints processor seconds next to the targets (plan 5 s, status 1 s) and, for scale, the time of Hydra's own compose of
one run with verl's defaults. Processor time, because a shared machine's clock says little.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import files
from harness.config.compose import project_folder
from harness.config.grid import load
from harness.planning import freeze, provenance
from harness.planning.plan import plan
from harness.slurm import live
from harness.store.runs import Store

TARGETS = {"plan": 5.0, "status": 1.0, "status again": 1.0}
LEVELS = [round(0.05 + 0.9 * i / 15, 3) for i in range(16)]


def study(folder: Path, runs: int) -> Path:
    """A sweep file of about so many distinct runs: 16 levels, two scales and two models, times seeds."""
    seeds = list(range(max(1, runs // (len(LEVELS) * 4))))
    grid = {"model": ["tiny", "small"], "baseline": "qae", "baseline.interpolation": "linear",
            "baseline.norm_by_std": [True, False], "baseline.K": LEVELS}  # fmt: skip
    path = folder / "large.yaml"
    path.write_text(json.dumps({"overrides": ["cluster=local"], "grid": [grid], "seeds": seeds}))
    return path


def train(store: Store, run: str) -> None:
    """What a run that trains has in its folder."""
    folder = store.folder(run)
    attempt = {"attempt": 1, "started": "2030-01-01T00:00:00+00:00", "host": "h", "pid": 1}
    files.write_json(folder / "attempts" / "001" / "attempt.json", attempt)
    beat = {"time": time.time(), "step": 40, "total": 40, "phase": "train", "step_seconds": 2.0}
    files.write_json(folder / "heartbeat.json", {**beat, "metrics": {"entropy/all": 1.0, "eval/pass@1": 0.5}})
    metrics = {"entropy/all": 1.0, **{f"actor/metric_{i}": 0.1 for i in range(60)}}
    lines = [json.dumps({"step": step, "time": 1.0, "attempt": 1, "metrics": metrics}) + "\n" for step in range(1, 41)]
    (folder / "metrics.jsonl").write_text("".join(lines))


def seconds(*arguments: str) -> float:
    """Processor seconds of one command of the harness, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "harness", *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def hydra_compose() -> float:
    """Processor seconds of Hydra's compose of verl's own config, after the first."""
    code = (
        "import time; from hydra import compose, initialize_config_module\n"
        "with initialize_config_module('verl.trainer.config', version_base=None):\n"
        "    compose('ppo_trainer'); t = time.process_time(); compose('ppo_trainer'); print(time.process_time() - t)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def interpolation_times() -> tuple[float, float]:
    """Processor seconds that resolving one run's verl config takes: harness/config/interpolation.py, OmegaConf."""
    from omegaconf import OmegaConf

    from harness.config import compose, interpolation, reference

    asked = compose.compose(["baseline=qae", "baseline.K=0.4"]).asked
    tree = reference.laid_over(reference.load(), asked)

    def taken(act: Callable[[], object], times: int) -> float:
        start = time.process_time()
        for _ in range(times):
            act()
        return (time.process_time() - start) / times

    ours = taken(lambda: interpolation.resolve(tree, tree), 20)
    return ours, taken(lambda: OmegaConf.to_container(OmegaConf.create(tree), resolve=True), 5)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name:
        os.environ["HARNESS_RUNS"] = str(Path(name) / "runs")
        path = study(Path(name), runs)
        times = {"plan": seconds("plan", str(path))}
        store, project = Store(Path(name) / "runs"), project_folder()
        sweep = load(str(path))
        entries = plan(sweep, store, project, functools.partial(live.states, store))
        start = time.process_time()
        freeze.freeze(sweep, entries, store, project, provenance.collect(project))
        frozen = time.process_time() - start
        for entry in entries:
            train(store, entry.id)
        times["status"] = seconds("status")
        times["status again"] = seconds("status")
    print(f"{len(entries)} runs, processor seconds, interpreter start included")
    for what, value in times.items():
        target = TARGETS[what]
        print(f"  {what:<14} {value:6.2f}   target {target:g}: {'met' if value <= target else 'missed'}")
    print(f"  freeze         {frozen:6.2f}   {1000 * frozen / len(entries):.1f} ms a run")
    ours, theirs = interpolation_times()
    print(
        f"  interpolations {1000 * ours:6.2f} ms a run,"
        f" OmegaConf {1000 * theirs:.0f} ms: {theirs / ours:.0f} times as long"
    )
    one = hydra_compose()
    print(f"  Hydra's compose of one run {one:.2f}; of {len(entries)} runs {one * len(entries):.0f}")


if __name__ == "__main__":
    main()
