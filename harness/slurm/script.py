"""The batch script of a job array. submitit writes its head; the payload is a path to a frozen run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import submitit

from harness.config import cluster
from harness.errors import HarnessError
from harness.slurm import command, submission

_ALWAYS_OURS = (
    "SBATCH_ARRAY_INX", "SBATCH_JOB_NAME", "SBATCH_OPEN_MODE", "SBATCH_REQUEUE", "SBATCH_NO_REQUEUE", "SBATCH_SIGNAL",
    "SBATCH_TIMELIMIT", "SBATCH_OUTPUT", "SBATCH_ERROR", "SBATCH_MEM_PER_NODE", "SBATCH_MEM_PER_CPU",
    "SBATCH_CPUS_PER_TASK",
)  # fmt: skip
"""Defaults of a user's environment that sbatch would put above the script's own lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a job asks of SLURM; runs of equal requests share an array."""

    nodes: int
    cpus: int
    """A node."""
    memory_mb: int
    """A node."""
    gpus: int
    """A node."""
    gpu_type: str | None
    minutes: int
    signal_seconds: int
    account: str | None
    partition: str | None
    qos: str | None
    constraint: str | None
    array_parallelism: int | None
    exclude: tuple[str, ...]
    setup: tuple[str, ...]
    sbatch: tuple[tuple[str, str], ...]
    python: str
    snapshot: str
    """Folder of the code."""
    after: str = ""
    """A job that has to end first."""


def request(spec: Mapping[str, Any], excluded: Sequence[str] = ()) -> Request:
    """The request of a frozen run. Raises: HarnessError where its spec names no snapshot."""
    need, wishes = spec["config"]["model"]["resources"], spec["config"]["cluster"]
    snapshot = spec["provenance"].get("snapshot")
    if not snapshot:
        raise HarnessError(f"run {spec['id']} was frozen for this machine: apply its sweep again with cluster=slurm")
    return Request(
        nodes=need["nodes"], cpus=need["cpus"], memory_mb=round(1024 * need["memory_gb"]), gpus=need["gpus"],
        gpu_type=wishes["gpu_type"], minutes=cluster.minutes(wishes["time_limit"]),
        signal_seconds=wishes["signal_seconds"], account=wishes["account"], partition=wishes["partition"],
        qos=wishes["qos"], constraint=wishes["constraint"], array_parallelism=wishes["array_parallelism"],
        exclude=tuple(sorted({*wishes["exclude"], *excluded})), setup=tuple(wishes["setup"]),
        sbatch=tuple(sorted(wishes["sbatch"].items())), python=wishes["python"] or shlex.quote(sys.executable),
        snapshot=snapshot, after=spec.get("evaluates", {}).get("after", ""),
    )  # fmt: skip


class ArrayExecutor(submitit.SlurmExecutor):
    """submitit's executor for a payload that is a path: no pickles, and the array's id is the whole answer."""

    def __init__(self, place: Path, asked: Request, name: str, key: str) -> None:
        super().__init__(folder=place)
        self._asked = asked
        self.update_parameters(**_parameters(asked, place, name, key))

    def text(self, tasks: int, lines: str = "") -> str:
        """The whole batch script of an array of so many tasks; `lines` are its last ones, by default a run's."""
        self.parameters["map_count"] = tasks
        self.parameters["array_parallelism"] = self._asked.array_parallelism or tasks
        lines = lines or payload(
            self._asked,
            self.folder,
            module="harness.running.job.lead",
            argument='"$run"',
            after="harness.running.job.handover",
        )
        return str(self._make_submission_file_text(lines, ""))


def write(root: Path, intended: submission.Submission, asked: Request) -> Path:
    """Writes the script of a submission and returns its path."""
    from harness import files

    place = submission.folder(root, intended.key)
    path = place / "submission.sh"
    files.write_text(path, ArrayExecutor(place, asked, intended.name, intended.key).text(len(intended.runs)))
    return path


def sbatch(path: Path, asked: Request, *, lock: int) -> str:
    """Hands a script to SLURM and returns the array's id.

    Raises: command.Refused where SLURM said no; command.Unavailable where it may or may not have it.
    """
    given = {"SBATCH_ACCOUNT": asked.account, "SBATCH_PARTITION": asked.partition, "SBATCH_QOS": asked.qos,
             "SBATCH_CONSTRAINT": asked.constraint, "SBATCH_EXCLUDE": asked.exclude}  # fmt: skip
    without = [*_ALWAYS_OURS, *(name for name, value in given.items() if value)]
    answer = command.run(["sbatch", "--parsable", str(path)], pass_fds=(lock,), without=without)
    array = answer.strip().splitlines()[-1].partition(";")[0] if answer.strip() else ""
    if not array.isdigit():
        raise command.Unavailable(f"sbatch answered {answer.strip()!r} instead of a job id: see squeue --me")
    return array


def _parameters(asked: Request, place: Path, name: str, key: str) -> dict[str, Any]:
    extra = {"requeue": True, "output": str(place / "logs" / "%A_%a.batch.log"), **dict(asked.sbatch)}
    if asked.after:  # a requeue is no end to SLURM; a job that failed is one, and ours says then why it does nothing
        extra |= {"dependency": f"afterany:{asked.after}", "kill-on-invalid-dep": "yes"}
    gpus = f"{asked.gpu_type}:{asked.gpus}" if asked.gpu_type else asked.gpus
    return {
        "job_name": name, "comment": f"harness:{key}", "partition": asked.partition, "account": asked.account,
        "qos": asked.qos, "constraint": asked.constraint, "exclude": ",".join(asked.exclude) or None,
        "time": asked.minutes, "nodes": asked.nodes, "ntasks_per_node": 1, "cpus_per_task": asked.cpus,
        "mem": f"{asked.memory_mb}M", "gpus_per_node": gpus if asked.gpus else None,
        "signal_delay_s": asked.signal_seconds, "setup": list(asked.setup) or None, "wckey": None,
        "stderr_to_stdout": True, "use_srun": False, "additional_parameters": extra,
    }  # fmt: skip


_OURS = shlex.quote(sys.executable)
"""Where the Python of the job does not start, what comes after may start with the one that submits."""


def payload(asked: Request, place: Path, *, module: str, argument: str, after: str) -> str:
    """The script's last lines: one task a node runs `module` on the frozen run of the task's index.

    `argument` is what the module gets, in the shell's words; the module `after` runs behind it. Neither that nor the
    exit is reached where the job puts itself back into the queue.
    """
    log = f"{shlex.quote(str(place / 'logs'))}/%A_%a.${{SLURM_RESTART_COUNT:-0}}.%t.log"
    lines = [
        f"export HARNESS_SUBMISSION={place.name}",
        f"export HARNESS_SNAPSHOT={shlex.quote(asked.snapshot)}",
        f"export HARNESS_SIGNAL_SECONDS={asked.signal_seconds}",
        'export PYTHONPATH="$HARNESS_SNAPSHOT${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1',
        f'run=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {shlex.quote(str(place / "runs.txt"))})',
        'cd "$HARNESS_SNAPSHOT" || exit 2',
        f"srun --kill-on-bad-exit=1 --unbuffered --output={log} {asked.python} -m {module} {argument}",
        "code=$?",
        *([f"{asked.python} -m {after} {argument} || {_OURS} -m {after} {argument}"] if after else []),
        "exit $code",
    ]
    return "\n".join(lines)
