"""A stand-in trainer on Ray: joins the job's cluster, works on every node, stops and saves as the real one does.

For tests of bring-up, faults and teardown that need neither torch nor verl. It writes who took part to ray.json.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from harness import files
from harness.trainer import joined
from tests.support import fake_trainer

cluster = joined.given(os.environ)
if cluster is not None:  # Ray reads these when it is imported
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(cluster.temp / "token")}
import ray  # noqa: E402


@ray.remote(num_cpus=1, num_gpus=1)
class Worker:
    """Takes the one GPU of a node."""

    def about(self) -> dict[str, object]:
        """Where it runs and what it sees."""
        address = ray.util.get_node_ip_address()
        return {"pid": os.getpid(), "address": address, "platform": os.environ.get("VERL_PLATFORM")}

    def work(self, seconds: float) -> None:
        """One step."""
        time.sleep(seconds)


def main(folder: Path, attempt: int) -> int:
    if cluster is None:
        raise RuntimeError("no cluster was given")
    spec = files.read_json(folder / "spec.json")
    ray.init(address=cluster.address, _node_ip_address=cluster.node, log_to_driver=False)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    workers = [Worker.remote() for _ in range(spec["config"]["model"]["resources"]["nodes"])]
    about = ray.get([worker.about.remote() for worker in workers])
    files.write_json(folder / "ray.json", {"workers": about, "driver": os.getpid(), "address": cluster.address})
    if "evaluates" in spec:
        return fake_trainer.evaluate(folder, spec, attempt, spec["wishes"])
    tracker = folder / "checkpoints" / "latest_checkpointed_iteration.txt"
    step = int(tracker.read_text()) if tracker.exists() else 0
    fake_trainer.outcomes(folder, "eval", 0)
    total = spec["config"]["steps"]
    while step < total:
        ray.get([worker.work.remote(spec["wishes"]["step_seconds"]) for worker in workers])
        step += 1
        files.append_json(folder / "steps.jsonl", {"step": step, "attempt": attempt, "pid": os.getpid()})
        fake_trainer.beat(folder, step, total)
        fake_trainer.outcomes(folder, "train", step)
        if step % spec["config"]["evaluation"]["every"] == 0 or step == total:
            fake_trainer.outcomes(folder, "eval", step)
        files.write_text(tracker, str(step))
        if stopped:
            return 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[3])))
