"""`harness doctor --job`: a two-minute job that looks around on the nodes that a run would get.

`python -m harness.commands.doctor.probe FOLDER` is its payload, one task a node.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import files
from harness.commands.doctor import wandbhost
from harness.commands.doctor.findings import FAILURE, OK, WARNING, Finding
from harness.config.compose import Composed, project_folder
from harness.planning import freeze
from harness.store.runs import Store

_MINUTES = 2
_WAIT_SECONDS = 300.0
_PACKAGES = ("verl", "torch", "ray", "vllm", "wandb")
_LEAST_TMP_GB = 10.0


def send(
    store: Store, composed: Composed, wait: float = _WAIT_SECONDS, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Any]:
    """Submits the probe, waits for it, and yields findings. Raises: command.Refused where SLURM does not take it."""
    from harness.commands.doctor import slurm
    from harness.slurm import script, snapshot, submission

    key = submission.new_key()
    place = submission.folder(store.root, key)
    code = snapshot.take(project_folder(), store.root)
    asked = replace(slurm.request(composed, str(code)), minutes=_MINUTES, signal_seconds=10)
    (place / "logs").mkdir(parents=True)
    name = submission.job_name("doctor", key)
    path = place / "submission.sh"
    payload = script.payload(
        asked, place, module="harness.commands.doctor.probe", argument=shlex.quote(str(place)), after=""
    )
    path.write_text(script.ArrayExecutor(place, asked, name, key).text(1, payload), encoding="utf-8")
    (place / "runs.txt").write_text("")
    files.write_json(place / "asked.json", wanted(composed))
    token = _token(key)
    try:
        with submission.gate(store.root) as lock:
            array = script.sbatch(path, asked, lock=lock)
        yield Finding(OK, "probe", f"job {array}_0 was submitted")
        yield from _wait(place, array, name, asked, wait, sleep)
    finally:
        token.unlink(missing_ok=True)


def _token(key: str) -> Path:
    """A file that this machine leaves in the cache: a node that does not see it has another folder there."""
    token = freeze.cache_folder(project_folder()) / f".probe.{key}"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.touch()
    return token


def wanted(composed: Composed) -> dict[str, Any]:
    """What a node has to see, for the payload."""
    settings, project = composed.settings, project_folder()
    paths = {name: str(project / os.path.expanduser(name)) for name in settings.data.train_files}
    paths |= {name: str(project / os.path.expanduser(name)) for name in settings.evaluation.files}
    model = project / os.path.expanduser(settings.model.path or "")
    if settings.model.path and model.is_dir():
        paths["the model"] = str(model)
    online = settings.tracking.name == "online"
    return {"cache": str(freeze.cache_folder(project)), "paths": paths, "wandb": online}


def _wait(place: Path, array: str, name: str, asked: Any, wait: float, sleep: Callable[[float], None]) -> Iterator[Any]:
    from harness.slurm import queue, withhold

    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        reports = [files.read_json(p) for p in sorted(place.glob("node.*.json"))]
        if len(reports) >= asked.nodes:
            found = list(judge(reports, asked.gpus))
            yield from found
            if all(finding.level == OK for finding in found):
                shutil.rmtree(place, ignore_errors=True)
            return
        job = queue.ask(name=name).jobs.get(f"{array}_0")
        if job is not None and not job.live and len(reports) < asked.nodes:
            sleep(2.0)  # a shared folder may be late
            if len(list(place.glob("node.*.json"))) < asked.nodes:
                told = _last_words(place / "logs")
                remedy = f"see {place / 'logs'}" + (
                    f": {told}" if told else "; is the runs folder shared with the nodes?"
                )
                yield Finding(FAILURE, "probe", f"the job ended as {job.state} and left nothing", remedy)
                return
        sleep(1.0)
    waiting = queue.ask(name=name).jobs.get(f"{array}_0")
    why = f" ({waiting.reason})" if waiting is not None and waiting.reason else ""
    withhold.scancel([f"{array}_0"])
    yield Finding(
        WARNING, "probe", f"the job did not start within {wait:.0f} s{why} and was cancelled", "try again later"
    )


def judge(reports: Sequence[Mapping[str, Any]], gpus: int) -> Iterator[Any]:
    """Findings from what the nodes reported."""
    for report in reports:
        node = report["node"]
        if report["gpus"] < gpus:
            remedy = "the node's driver or gres.conf: ask the site, or cluster.exclude"
            yield Finding(FAILURE, node, f"{report['gpus']} of {gpus} GPUs are visible", remedy)
        missing = [name for name in ("verl", "torch", "ray") if not report["versions"].get(name)]
        if missing:
            yield Finding(
                FAILURE, node, f"{', '.join(missing)} cannot be found by {report['python']}", "cluster.python"
            )
        if report["free_tmp_gb"] < _LEAST_TMP_GB:
            text = f"{report['free_tmp_gb']:.1f} GiB free in {report['tmp']}"
            yield Finding(WARNING, node, text, "Ray writes there: set TMPDIR in cluster.setup")
        if abs(report["skew_seconds"]) > 30:
            yield Finding(WARNING, node, f"its clock is {report['skew_seconds']:.0f} s off", "tell the site")
        for what, trouble in report["missing"].items():
            yield Finding(FAILURE, node, f"{what}: {trouble}", "put it on a folder that all nodes share")
        if report["wandb"]:
            yield Finding(FAILURE, node, f"W&B: {report['wandb']}", "tracking=offline, and later `harness sync`")
        found = ", ".join(f"{name} {version}" for name, version in report["versions"].items() if version)
        shared = "the runs folder" + ("" if "the cache" in report["missing"] else " and the cache")
        yield Finding(OK, node, f"{shared} can be written from there; {report['gpus']} GPUs; {found}")


def _last_words(logs: Path) -> str:
    for path in sorted(logs.glob("*"), reverse=True):
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()
    return ""


def look(place: Path) -> dict[str, Any]:
    """What one node sees. Writing the report is the test of the shared folder."""
    rank = os.environ.get("SLURM_PROCID", "0")
    tmp = tempfile.gettempdir()
    probe = place / f".clock.{rank}"
    probe.write_text("")
    asked = files.read_json(place / "asked.json")
    missing = {what: f"{path} is not there" for what, path in asked["paths"].items() if not Path(path).exists()}
    if trouble := _strange(Path(asked["cache"]), place.name):
        missing["the cache"] = trouble
    return {
        "missing": missing, "wandb": wandbhost.trouble() if asked["wandb"] else "",
        "node": os.environ.get("SLURMD_NODENAME") or os.uname().nodename, "rank": int(rank), "python": sys.executable,
        "versions": {name: _version(name) for name in _PACKAGES}, "gpus": _gpus(), "tmp": tmp,
        "free_tmp_gb": shutil.disk_usage(tmp).free / 2**30, "skew_seconds": time.time() - probe.stat().st_mtime,
    }  # fmt: skip


def _strange(cache: Path, key: str) -> str:
    """What is wrong with the cache as seen from here, '' where it is the submitter's and can be written."""
    if not (cache / f".probe.{key}").exists():
        return f"{cache} is another folder there than here"
    try:
        with tempfile.TemporaryFile(dir=cache):
            return ""
    except OSError as error:
        return f"{cache} cannot be written ({error.strerror})"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpus() -> int:
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
    except (OSError, subprocess.TimeoutExpired):  # also one that we may not run
        pass
    return len([part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()])


def main() -> int:
    """Writes one node's report."""
    place = Path(sys.argv[1])
    report = look(place)
    files.write_json(place / f"node.{report['rank']}.json", report)
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
