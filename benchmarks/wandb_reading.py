"""Time of reading a W&B file against the SDK's own ways: `python benchmarks/wandb_reading.py`.

Logs one offline run with the SDK (2,000 steps x 40 metrics), then prints, as multiples of the time of
`analysis.sources.wandbfile.read`:
- the SDK's protobuf: every record through `Record.FromString`, the values of every history row through `json.loads`;
- `wandb leet inspect --json`, a compiled program, less the start-up time that `--help` takes, and its JSON parsed;
- the reader's own parquet cache.
All three must give the same rows. Times are processor time of this process and its children, the best of five.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS, METRICS, REPEATS = 2_000, 40, 5
Rows = list[dict[str, float]]


def log_run(folder: Path) -> Path:
    """Logs the run and returns its .wandb file."""
    import wandb

    settings = wandb.Settings(mode="offline", silent=True, x_disable_meta=True, x_disable_stats=True)
    run = wandb.init(project="benchmark", dir=folder, settings=settings)
    for step in range(1, STEPS + 1):
        row = {f"group{number % 7}/metric_{number}": math.sin(step * number) for number in range(1, METRICS)}
        run.log({**row, "training/global_step": step}, step=step)
    run.finish()
    return next((folder / "wandb").glob("offline-run-*/*.wandb"))


def by_protobuf(path: Path) -> Rows:
    """The SDK's message classes; the framing is ours, since the SDK has no reader any more."""
    from wandb.proto import wandb_internal_pb2

    from analysis.sources.framing import FILE_HEADER, Losses, records

    rows = []
    for raw, _ in records(path.read_bytes(), FILE_HEADER, Losses()):
        record = wandb_internal_pb2.Record.FromString(raw)
        if record.WhichOneof("record_type") == "history":
            rows.append({".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item})
    return rows


def inspect(*arguments: str) -> bytes:
    """Output of `wandb leet inspect`."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


def by_inspect(path: Path) -> Rows:
    """`wandb leet inspect --json`."""
    rows = []
    for line in inspect("--json", str(path)).splitlines():
        record: dict[str, Any] = json.loads(line)
        if record["type"] == "history":
            rows.append(record["history"]["item"])
    return rows


def seconds(action: Callable[[], Any]) -> float:
    """Least processor time of a few calls, of this process and of the children that it waited for."""
    best = math.inf
    for _ in range(REPEATS):
        before = processor()
        action()
        best = min(best, processor() - before)
    return best


def processor() -> float:
    """Processor seconds so far."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    from analysis.sources import cache, wandbfile

    with tempfile.TemporaryDirectory() as folder:
        path = log_run(Path(folder))
        found = wandbfile.read(path)
        mine = [{name: float(values[row]) for name, values in found.columns.items()} for row in range(found.rows)]
        ours = seconds(lambda: wandbfile.read(path))
        out = sys.stdout.write
        out(f"{found.rows} rows x {len(found.columns)} columns, {path.stat().st_size / 1e6:.1f} MB: {ours:.3f} s\n")
        others: dict[str, tuple[Callable[[], Rows], float]] = {"SDK's protobuf": (lambda: by_protobuf(path), 0.0)}
        try:
            others["wandb leet inspect"] = (lambda: by_inspect(path), seconds(lambda: inspect("--help")))
        except (OSError, subprocess.CalledProcessError):
            out("wandb leet inspect: this SDK has none\n")
        for name, (read, start) in others.items():
            same = "the same rows" if read() == mine else "OTHER ROWS"
            out(f"{name}: {max(0.0, seconds(read) - start) / ours:.1f} times as long, {same}\n")
        entry = Path(folder) / "cache"
        cache.fragment(path, entry)
        out(f"from the cache: {seconds(lambda: cache.fragment(path, entry)) / ours:.2f} times as long\n")


if __name__ == "__main__":
    main()
