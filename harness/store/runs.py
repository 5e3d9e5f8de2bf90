"""The run store: one folder a run, JSON and parquet that a person can open."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import files
from harness.config import reference
from harness.errors import HarnessError, nearest
from harness.store import claim, outcome_files, renamed

SCHEMA = 1
_VERL = '\n "verl": '
"""Where verl's config begins in a spec as `files.write_json` writes it."""
EVALUATIONS = "evaluations"
"""Folder of a run's evaluations (harness.running.evaluations). An evaluation's name is its folder, from the root."""
_ID = re.compile(r"[0-9a-f]{10}")
_EVALUATION = re.compile(r"step_\d+")


@dataclass(frozen=True, slots=True)
class RunState:
    """What the files of one run say about it, at one moment."""

    id: str
    kind: str
    """`absent`, `new` (frozen, never started), `running`, `stopped` (asked to, or killed), `failed`, `done`; with SLURM
    (harness.slurm.live) also `queued` and `unknown`."""
    step: int
    """Last training step that was finished."""
    total: int
    """Training steps until done; 0 where unknown."""
    attempts: int
    reason: str
    """For people: who runs it, why it failed, where it goes on."""


class Store:
    """Runs under one root. Holds nothing but the path: every question is answered from the files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def default(cls, project: Path) -> Store:
        """HARNESS_RUNS, or `runs/` of the project."""
        chosen = os.environ.get("HARNESS_RUNS")
        root = Path(chosen).expanduser().resolve() if chosen else project / "runs"
        if root.exists() and not root.is_dir():
            raise HarnessError(f"{root} is no folder: set HARNESS_RUNS to a folder, or move the file away")
        return cls(root)

    @classmethod
    def holding(cls, folder: Path) -> tuple[Store, str]:
        """The store that a run's folder lies in, and the run's name; the same for the folder of an evaluation."""
        if folder.parent.name == EVALUATIONS and _EVALUATION.fullmatch(folder.name):
            root = folder.parents[2]
            return cls(root), folder.relative_to(root).as_posix()
        return cls(folder.parent), folder.name

    def folder(self, run: str) -> Path:
        """Folder of a run or of an evaluation; it need not exist."""
        return self.root / run

    def ids(self) -> list[str]:
        """Ids of all runs in the store."""
        if not self.root.is_dir():
            return []
        return sorted(p.name for p in self.root.iterdir() if _ID.fullmatch(p.name) and p.is_dir())

    def find(self, prefix: str) -> str:
        """The run whose id starts with `prefix`. Raises: HarnessError where none or several do."""
        found = [run for run in self.ids() if run.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if found:
            raise HarnessError(f"run {prefix!r} is ambiguous: {', '.join(found[:6])}; give more digits")
        raise HarnessError(f"run {prefix!r}: none in {self.root}; {nearest(prefix, self.ids()) or 'it is empty'}")

    def spec(self, run: str) -> dict[str, Any]:
        """The frozen spec. Raises: HarnessError where it is missing or damaged."""
        path = self.folder(run) / "spec.json"
        try:
            spec = files.read_mapping(path)
        except FileNotFoundError:
            raise HarnessError(
                f"{path} is missing: restore it, or move {path.parent} away to start the run afresh"
            ) from None
        if spec.get("id") != _run(run) or not _has_target(spec):
            raise HarnessError(f"{path} is not the spec of run {run}: restore it, or move {path.parent} away")
        return renamed.current(spec)

    def brief(self, run: str) -> dict[str, Any]:
        """The spec up to verl's config, which is nine tenths of it: what tables show. Raises: as `spec` does."""
        try:
            text = (self.folder(run) / "spec.json").read_text(encoding="utf-8")
            head, found, _ = text.partition(_VERL)
            spec = json.loads(head.rstrip().rstrip(",") + "}") if found else None
        except (OSError, ValueError, RecursionError):
            spec = None
        if not isinstance(spec, dict) or spec.get("id") != _run(run) or not _has_target(spec):
            return self.spec(run)  # written by another hand, or damaged: the whole file decides
        return spec

    def freeze(self, run: str, spec: Mapping[str, Any], diff: str = "") -> None:
        """Writes the spec of a run that is not done and that nobody works on.

        A spec that is there already may differ in what is no science (tracking, cluster, paths): the new one replaces
        it, and the event log keeps the old values.
        """
        folder = self.folder(run)
        with files.locked(folder / ".lock"):
            if (folder / "done.json").exists() or claim.owner(folder) is not None:
                return
            path = folder / "spec.json"
            if path.exists():
                self._log_changes(run, spec)
            else:
                self.event(run, "frozen", label=spec.get("label"))
            if diff:
                files.write_text(folder / "uncommitted.diff", diff)
            else:
                (folder / "uncommitted.diff").unlink(missing_ok=True)
            files.write_json(path, spec)

    def _log_changes(self, run: str, spec: Mapping[str, Any]) -> None:
        old = self.spec(run)
        for key in ("config", "verl"):
            for name, before, after in reference.differences(old.get(key, {}), spec.get(key, {})):
                self.event(run, "spec changed", key=f"{key}.{name}", before=before, after=after)

    def event(self, run: str, event: str, **fields: Any) -> None:
        """Appends to the run's event log."""
        files.append_json(self.folder(run) / "events.jsonl", {"time": now(), "event": event, **fields})

    def attempts(self, run: str) -> list[dict[str, Any]]:
        """Records of all attempts, oldest first."""
        folder = self.folder(run) / "attempts"
        if not folder.is_dir():
            return []
        records = []
        for path in sorted(p for p in folder.iterdir() if p.name.isdigit()):
            try:
                record = files.read_mapping(path / "attempt.json")
            except FileNotFoundError:  # killed between making the folder and writing the record
                record = {}
            records.append({**record, "attempt": int(path.name)})
        return records

    def heartbeat(self, run: str) -> dict[str, Any]:
        """The trainer's last sign of life, or {}. A damaged one counts as none: the next step writes it again."""
        try:
            beat = files.read_mapping(self.folder(run) / "heartbeat.json")
        except (FileNotFoundError, HarnessError):
            return {}
        whole = _is_whole(beat.get("step", 0)) and isinstance(beat.get("metrics") or {}, dict)
        numbers = (beat.get("time", 0.0), beat.get("step_seconds") or 0.0)
        return beat if whole and all(isinstance(n, int | float) and math.isfinite(n) for n in numbers) else {}

    def state(self, run: str) -> RunState:
        """What the files say. Raises: HarnessError where the folder is damaged."""
        folder = self.folder(run)
        if not (folder / "spec.json").exists() and not self._holds_data(folder):
            return RunState(run, "absent", 0, 0, 0, "")
        spec = self.brief(run)
        total = spec["config"]["steps"]
        attempts = self.attempts(run)
        step = self.heartbeat(run).get("step", 0)
        try:
            done = files.read_mapping(folder / "done.json")
        except FileNotFoundError:
            pass
        else:
            return RunState(run, "done", self._reached(run, done, total), total, len(attempts), "")
        owner = claim.owner(folder)
        if owner is not None:
            return RunState(run, "running", step, total, len(attempts), f"{owner}, step {step} of {total}")
        if not attempts:
            return RunState(run, "new", 0, total, 0, "never started")
        last = attempts[-1]
        saved = self.checkpoint(run)
        goes_on = f"goes on from the checkpoint of step {saved}" if saved else "no checkpoint yet: starts afresh"
        lost = last.get("outcome") == "lost" and last.get("cause") not in ("cancelled", "preempted", "time limit")
        if last.get("outcome") == "failed" or lost:  # lost: killed, and its end was told by SLURM afterwards
            return RunState(run, "failed", step, total, len(attempts), f"{last.get('reason', 'unknown')}; {goes_on}")
        why, cause = "stopped" if last.get("outcome") == "stopped" else "interrupted", last.get("cause")
        if cause:
            why = "cancelled" if cause == "cancelled" else f"{why} ({cause})"
        return RunState(run, "stopped", step, total, len(attempts), f"{why} at step {step} of {total}, {goes_on}")

    def _reached(self, run: str, done: Mapping[str, Any], total: int) -> int:
        """The step that a record of completion states. Raises: HarnessError where it is no such record."""
        step, evaluated = done.get("step", total), done.get("evaluations") or []
        if not _is_whole(step) or not isinstance(evaluated, list) or not all(map(_is_whole, evaluated)):
            path = self.folder(run) / "done.json"
            raise HarnessError(f"{path} is damaged: restore it, or move its folder away to start afresh")
        return step

    @staticmethod
    def _holds_data(folder: Path) -> bool:
        # What a writer that was killed while it froze the run has left is none: the run is frozen anew.
        frozen = ("events.jsonl", "uncommitted.diff")
        return folder.is_dir() and any(not p.name.startswith(".") and p.name not in frozen for p in folder.iterdir())

    def checkpoint(self, run: str) -> int:
        """Step of the last complete checkpoint, 0 without one (verl's tracker file is written after the shards)."""
        try:
            return int((self.folder(run) / "checkpoints" / "latest_checkpointed_iteration.txt").read_text())
        except (OSError, ValueError):
            return 0

    def unfinished_business(self, run: str, spec: Mapping[str, Any]) -> str:
        """Why a run is not done although its trainer ended well: '' if it is done.

        Done means that the target step was reached and the outcomes of every training step and evaluation are there;
        for an evaluation, that its own outcomes are.
        """
        config = spec["config"]
        if "evaluates" in spec:
            step = int(spec["evaluates"]["step"])
            drawn = step in outcome_files.steps(self.folder(run), "eval")
            return "" if drawn else f"the evaluation of step {step} has no outcomes"
        total, evaluation = int(config["steps"]), config["evaluation"]
        trained = outcome_files.steps(self.folder(run), "train")
        missing = [s for s in range(1, total + 1) if s not in trained]
        if missing:
            return f"training step {missing[0]} of {total} has no outcomes"
        due = evaluation_steps(total, int(evaluation["every"]), bool(evaluation["before_training"]))
        evaluated = outcome_files.steps(self.folder(run), "eval")
        gaps = [s for s in due if s not in evaluated]
        return f"the evaluation of step {gaps[0]} has no outcomes" if gaps else ""

    def lost_result(self, run: str) -> str:
        """What is no longer there of the last evaluation of a run that is done: its file, '' where nothing is lost."""
        due = files.read_mapping(self.folder(run) / "done.json").get("evaluations")
        if not due:
            return ""
        last = outcome_files.path(self.folder(run), "eval", max(due))
        return "" if outcome_files.is_whole(last) else str(last)

    def sweep_file(self, sweep: str) -> Path:
        """The file that says which runs a sweep asked for last."""
        return self.root / "_sweeps" / f"{sweep.replace('/', '--')}.json"


def reached(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the record of completion says of a run that is done: its target, and the steps that were evaluated."""
    config, evaluation = spec["config"], spec["config"]["evaluation"]
    due = evaluation_steps(config["steps"], evaluation["every"], evaluation["before_training"])
    if "evaluates" in spec:
        due = [int(spec["evaluates"]["step"])]
    return {"step": config["steps"], "total": config["steps"], "evaluations": due}


def evaluation_steps(total: int, every: int, before_training: bool) -> list[int]:
    """Steps after which a run is evaluated: every so many, the last one, and 0 before training."""
    steps = {*range(every, total + 1, every), total} | ({0} if before_training else set())
    return sorted(steps)


def _has_target(spec: Mapping[str, Any]) -> bool:
    config = spec.get("config")
    return isinstance(config, dict) and _is_whole(config.get("steps"))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _run(name: str) -> str:
    """The run that a name belongs to: its own, or an evaluation's."""
    return name.partition("/")[0]


def now() -> str:
    """UTC time, ISO 8601 with seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class NeverApplied(HarnessError):
    """Nothing is known of a sweep's runs."""

    def __init__(self, sweep: str, applied: Sequence[str]) -> None:
        super().__init__(f"no sweep {sweep!r} was applied here; {nearest(sweep, applied) or 'none was yet'}")
        self.applied = applied


def ids_of(store: Store, sweep: str) -> Sequence[str]:
    """Ids of the runs that a sweep asked for when it was last applied. Raises: NeverApplied."""
    path = store.sweep_file(sweep)
    try:
        content = files.read_mapping(path)
    except FileNotFoundError:
        applied = [p.stem.replace("--", "/") for p in path.parent.glob("*.json")] if path.parent.is_dir() else []
        if f"search/{sweep}" in applied:
            raise HarnessError(f"{sweep} is a study, no sweep: `harness report {sweep}` writes its page") from None
        raise NeverApplied(sweep, applied) from None
    points = content.get("points")
    if not isinstance(points, list) or not all(isinstance(p, dict) and isinstance(p.get("id"), str) for p in points):
        raise HarnessError(f"{path} is damaged: run `harness sweep {sweep}` again, it writes the file anew")
    return list(dict.fromkeys(point["id"] for point in points))
