"""`python -m harness.trainer.main RUN_DIR --attempt N`: one attempt at a frozen run, in the foreground.

Exit codes: 0 ended (target reached, or stopped on request with everything on disk), 2 a mistake or fault that the user
can mend, 1 any other error (traceback in the log), 143 stopped by force after the grace time.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from harness.errors import HarnessError
from harness.files import read_json
from harness.store import renamed
from harness.tasks.data import prepared
from harness.trainer import checkpoints, environment, joined, processes, tracking
from harness.trainer.cpu import forkserver
from harness.trainer.environment import Attempt
from harness.trainer.records import Records

logger = logging.getLogger("harness.trainer")

FORCED = 128 + signal.SIGTERM
FLUSH_SECONDS = 15.0
"""How long W&B may take to flush when the end comes by force."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the attempt; see the module."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        attempt = _attempt(options.run_dir, options.attempt)
        spec = read_spec(attempt.run_dir)
        for path in (*_files(spec, "train_files"), *_files(spec, "val_files")):
            prepared.refuse_altered(path)
        # The W&B service of whoever started us would outlive us, hold our run as in use, and not be ours to flush.
        os.environ.pop("WANDB_SERVICE", None)
        if options.fork_server and environment.on_cpu(spec["verl"]):
            os.environ[environment.FORK_SERVER] = options.fork_server
        os.environ.update(environment.shared_variables(spec, os.environ))
        # Does not return where a fork server runs the rest, from the top, in a process that has imported everything.
        forkserver.hand_over("harness.trainer.main", sys.argv[1:] if arguments is None else arguments)
        return run(spec, attempt, grace=options.grace)
    except HarnessError as error:
        # Ray hands on a worker's error as one that is also a HarnessError, with the traceback in its text.
        print(f"error: {getattr(error, 'cause', None) or error}", file=sys.stderr)
        return 2


def run(spec: Mapping[str, Any], attempt: Attempt, grace: float = 60.0) -> int:
    """Trains, and leaves no process and no temporary folder behind."""
    attempt.folder.mkdir(parents=True, exist_ok=True)
    cluster = joined.given(os.environ)
    if cluster is None:
        environment.forget_ray_temps(attempt)
        ray_temp = environment.make_ray_temp(attempt)
        environment.remember_ray_temp(attempt, ray_temp)
    else:
        ray_temp = cluster.temp
    os.environ.update(environment.variables(spec, attempt, ray_temp, os.environ))
    stop_on_signals = partial(_stop_on_signals, attempt, grace, alone=cluster is None)
    stop_on_signals()
    _first_beat(spec, attempt)
    try:
        _train(spec, attempt, ray_temp, cluster, after_start=stop_on_signals)  # Ray puts its own handlers there
        return 0
    except HarnessError:
        raise
    except Exception:  # the boundary of the process: the log gets the traceback, the caller an exit code
        logger.exception("attempt %d failed", attempt.number)
        return 1
    finally:
        _clean_up(attempt, alone=cluster is None)


def _first_beat(spec: Mapping[str, Any], attempt: Attempt) -> None:
    """Shows at once that the attempt lives, and what an earlier one has reached."""
    total = int(spec["verl"].get("trainer", {}).get("total_training_steps") or 0)
    records = Records(folder=attempt.run_dir, attempt=attempt.number, total=total)
    step = checkpoints.tracked(attempt.run_dir / "checkpoints") or 0
    records.show(records.read_metrics(), step)
    records.beat("start", step)


def read_spec(run_dir: Path) -> dict[str, Any]:
    """The frozen spec of a run.

    Raises: HarnessError where it is absent, damaged or of another schema.
    """
    path = run_dir / "spec.json"
    try:
        spec = read_json(path)
    except FileNotFoundError:
        raise HarnessError(f"{path} does not exist: give the folder of a planned run") from None
    if not isinstance(spec, dict) or spec.get("schema") != 1:
        raise HarnessError(f"{path} is no spec of schema 1: plan the run again with this version")
    for key in ("id", "verl"):
        if key not in spec:
            raise HarnessError(f"{path} has no {key!r}: plan the run again")
    return renamed.current(spec)


def _files(spec: Mapping[str, Any], key: str) -> list[Path]:
    """Data files of a run, of which verl takes one or a list; relative ones lie in its folder of work."""
    found = spec["verl"].get("data", {}).get(key) or []
    return [Path(name) for name in ([found] if isinstance(found, str) else found)]


def _train(
    spec: Mapping[str, Any],
    attempt: Attempt,
    ray_temp: Path,
    cluster: joined.Cluster | None,
    after_start: Callable[[], None],
) -> None:
    # Imported late: the environment has to be complete before Ray and verl are.
    from harness.trainer import runner

    config = runner.build_config(spec, attempt, ray_temp)
    if cluster is not None:
        joined.join(config, cluster)
    runner.train(config, after_start)


def _stop_on_signals(attempt: Attempt, grace: float, *, alone: bool) -> None:
    """The first SIGTERM or SIGINT asks the trainer to end after its step; the second, or the grace time, ends it."""

    def handle(number: int, frame: FrameType | None) -> None:
        if attempt.stop_file.exists():
            _end_by_force(attempt, alone=alone)
        attempt.stop_file.touch()
        timer = threading.Timer(grace, _end_by_force, [attempt], {"alone": alone})
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def _end_by_force(attempt: Attempt, *, alone: bool) -> None:
    flusher = threading.Thread(target=tracking.finish_service, daemon=True)
    flusher.start()
    flusher.join(timeout=FLUSH_SECONDS)
    if alone:  # else the processes are the job's
        processes.end(attempt.folder, grace=3.0, exclude=forkserver.this_process())
        environment.forget_ray_temps(attempt)
    os._exit(FORCED)


def _clean_up(attempt: Attempt, *, alone: bool) -> None:
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()
    tracking.finish_service()
    if not alone:
        return
    left = processes.end(attempt.folder, exclude=forkserver.this_process())
    if left:
        logger.warning("%d processes outlived Ray and were ended", len(left))
    environment.forget_ray_temps(attempt)


def _attempt(run_dir: Path, number: int) -> Attempt:
    run_dir = run_dir.resolve()
    return Attempt(run_dir=run_dir, run_id=str(read_spec(run_dir)["id"]), number=number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.trainer.main", description="One attempt at a planned run.")
    parser.add_argument("run_dir", type=Path, help="folder of the run, with its spec.json")
    parser.add_argument("--attempt", type=int, default=1, help="number of this attempt, from 1")
    parser.add_argument("--grace", type=float, default=60.0, help="seconds between SIGTERM and the end by force")
    parser.add_argument("--fork-server", default=None, help="socket of a fork server for Ray's workers (CPU mode)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
