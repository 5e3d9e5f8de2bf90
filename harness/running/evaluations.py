"""The evaluations of runs: each is the run's frozen spec, told to evaluate only, in a folder of its own.

    <root>/<run>/evaluations/step_000200/     spec.json, attempts/, outcomes/, done.json as a run has them; `wanted`

So a job works one off as it does a run: supervision, Ray over several nodes, claims, submissions and requeues are the
same code. Its name in the store is its folder, `<run>/evaluations/step_000200`.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import files
from harness.errors import HarnessError
from harness.slurm import submission
from harness.store import claim
from harness.store.retention import WANTED
from harness.store.runs import EVALUATIONS, Store
from harness.trainer import checkpoints

if TYPE_CHECKING:
    from harness.slurm.live import Seen

PENDING = ("queued", "running", "unknown")
"""States of an evaluation that still needs its checkpoint and its code."""
MERGE = "harness.running.merge"
_GRACE_SECONDS = 5.0
"""An evaluation that is asked to stop has nothing to save."""


def name(run: str, step: int) -> str:
    """The evaluation of a run at a step, as the store names it."""
    return f"{run}/{EVALUATIONS}/step_{step:06d}"


def parts(evaluation: str) -> tuple[str, int]:
    """(run, step) of a name."""
    return evaluation.partition("/")[0], int(evaluation.rpartition("_")[2])


def is_one(run: str) -> bool:
    """Whether a name is an evaluation's."""
    return "/" in run


def label(evaluation: str) -> str:
    """For people."""
    run, step = parts(evaluation)
    return f"evaluation of {run} at step {step}"


def every(store: Store, runs: Iterable[str]) -> list[str]:
    """All evaluations of these runs, by run and step."""
    found = (path for run in runs for path in sorted(store.folder(run).glob(f"{EVALUATIONS}/step_*/spec.json")))
    return [path.parent.relative_to(store.root).as_posix() for path in found]


def unfinished(store: Store, runs: Iterable[str]) -> list[str]:
    """Those that were asked for and are not done."""
    return [
        e for e in every(store, runs)
        if not (store.folder(e) / "done.json").exists()
        and ((store.folder(e) / WANTED).exists() or submission.current(store.folder(e)) is not None)
    ]  # fmt: skip


def needed(seen: Mapping[str, Seen]) -> dict[str, set[int]]:
    """Run -> steps of the checkpoints that its evaluations among these are going to load."""
    found: dict[str, set[int]] = {}
    for evaluation in (e for e, s in seen.items() if is_one(e) and s.state.kind in PENDING):
        run, step = parts(evaluation)
        found.setdefault(run, set()).add(step)
    return found


def frozen(
    spec: Mapping[str, Any],
    step: int,
    n: int,
    seeds: int,
    *,
    after: str = "",
    snapshot: str = "",
    time_limit: str = "",
) -> dict[str, Any]:
    """The spec of an evaluation: the run's own, told to evaluate only.

    Args:
        spec: the run's.
        step: of the checkpoint.
        n: samples a problem and seed.
        seeds: evaluation seeds.
        after: the run's job; the run must be done when it has ended.
        snapshot: the code of a job; '' is this checkout.
        time_limit: of the job; '' is the run's.
    """
    verl, config = spec["verl"], spec["config"]
    trainer, model = verl["trainer"], verl["actor_rollout_ref"]
    rollout = model["rollout"]
    drawn = {**rollout["val_kwargs"], "n": n * seeds}
    only = {"val_only": True, "val_before_train": True, "logger": ["console"], "save_freq": -1}
    cluster = config["cluster"]
    longer = max(1, math.ceil(n * seeds / max(1, rollout["val_kwargs"]["n"])))  # one sign of life a benchmark
    return {
        "evaluates": {"step": step, "samples": n * seeds, "n": n, "after": after},  # first: see Store.brief
        **spec,
        "sweep": "",  # its end says nothing about the sweep's other runs
        "finish": [MERGE],
        "config": {**config, "cluster": {
            **cluster,
            "hang_minutes": cluster["hang_minutes"] * longer,
            "grace_seconds": min(cluster["grace_seconds"], _GRACE_SECONDS),
            "time_limit": time_limit or cluster["time_limit"],
        }},
        "verl": {
            **verl,
            "trainer": {**trainer, **only},
            "actor_rollout_ref": {**model, "rollout": {**rollout, "val_kwargs": drawn}},
        },
        "provenance": {**spec["provenance"], **({"snapshot": snapshot} if snapshot else {})},
    }  # fmt: skip


def prepare(store: Store, spec: Mapping[str, Any]) -> str:
    """Writes an evaluation that somebody asks for and returns its name. From then on its checkpoint is kept.

    Raises: HarnessError where there is no such checkpoint; claim.Claimed where somebody works on the evaluation.
    """
    run, asked = str(spec["id"]), spec["evaluates"]
    evaluation = name(run, asked["step"])
    folder = store.folder(evaluation)
    with files.locked(store.folder(run) / ".lock"):
        if not asked["after"]:
            check_checkpoint(run, whole(store, run), asked["step"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / WANTED).touch()
    with files.locked(folder / ".lock"):
        if (owner := claim.owner(folder)) is not None:
            raise claim.Claimed(f"{label(evaluation)} is being made by {owner}: wait for it")
        submission.unlink(folder)  # a job of an earlier request that turns up late ends at once
        for ended in ("done.json", "heartbeat.json"):
            (folder / ended).unlink(missing_ok=True)
        shutil.rmtree(folder / "outcomes", ignore_errors=True)  # the run's own outcomes have them already
        files.write_json(folder / "spec.json", spec)
    return evaluation


def begin(store: Store, evaluation: str, spec: Mapping[str, Any]) -> str:
    """Points an evaluation at its checkpoint. Returns why it cannot begin, '' if it can."""
    run, asked = str(spec["id"]), spec["evaluates"]
    state = store.state(run)
    if asked["after"] and state.kind != "done":
        why = f"run {run} did not get done ({state.kind}: {state.reason})"
        return f"{why}; once its job has ended, `harness eval {run}` evaluates the last checkpoint that it has"
    try:
        check_checkpoint(run, whole(store, run), asked["step"])
    except HarnessError as error:
        return str(error)
    link = checkpoints.folder(store.folder(evaluation) / "checkpoints", asked["step"])
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        there = checkpoints.folder(_root(store, run), asked["step"])
        link.symlink_to(there.resolve(), target_is_directory=True)
    files.write_text(link.parent / checkpoints.TRACKER, str(asked["step"]))
    return ""


def withhold(store: Store, evaluation: str, why: str) -> None:
    """Notes that an evaluation was not begun; its checkpoint may go."""
    run, step = parts(evaluation)
    submission.withhold(store.folder(evaluation), f"nothing was evaluated: {why}")
    (store.folder(evaluation) / WANTED).unlink(missing_ok=True)
    store.event(run, "evaluation withheld", step=step, reason=why)


def take_back(store: Store, evaluation: str) -> None:
    """Nobody asks for it any more: a job of it that starts ends at once, and its checkpoint may go."""
    submission.unlink(store.folder(evaluation))
    (store.folder(evaluation) / WANTED).unlink(missing_ok=True)


def whole(store: Store, run: str) -> list[int]:
    """Steps of the run's whole checkpoints, ascending."""
    root = _root(store, run)
    return [step for step in checkpoints.steps(root) if checkpoints.is_sealed(root, step)]


def check_checkpoint(run: str, there: Sequence[int], step: int | None) -> None:
    """Raises: HarnessError where the run has not the checkpoint of this step, or none at all."""
    if step in there or (step is None and there):
        return
    asked = "a checkpoint" if step is None else f"the checkpoint of step {step}"
    some = ", ".join(map(str, there)) or "none"
    raise HarnessError(f"run {run} has not {asked} (there: {some}): set keep_checkpoints and save_every to keep more")


def _root(store: Store, run: str) -> Path:
    return store.folder(run) / "checkpoints"
