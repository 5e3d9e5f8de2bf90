"""What SLURM says to a run before it is submitted: programs, accounting, partition, QOS, limits, preemption."""

from __future__ import annotations

import getpass
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.compose import Composed
from harness.doctor import FAILURE, OK, WARNING, Finding
from harness.slurm import command, limits, queue, script
from harness.typed import to_plain

_NEEDED = ("sbatch", "squeue", "scancel", "scontrol", "srun")
_WISHED = {"sacct": "ends of jobs that left no record stay unknown", "sacctmgr": "submit limits cannot be asked for"}


def findings(composed: Composed) -> Iterator[Finding]:
    """All findings about SLURM; they end where it does not answer."""
    missing = [name for name in _NEEDED if not shutil.which(name)]
    if missing:
        yield Finding(FAILURE, "SLURM", f"{', '.join(missing)} not on PATH", "run on a login node, or load its module")
        return
    try:
        config = limits.settings(command.run(["scontrol", "show", "config"]))
    except (command.Unavailable, command.Refused) as error:
        yield Finding(FAILURE, "SLURM", str(error), "ask the site, or set SLURM_CONF")
        return
    yield Finding(OK, "SLURM", f"{config.get('SLURM_VERSION', 'version unknown')}, {config.get('ClusterName', '')}")
    yield from accounting(config)
    yield from partition(composed)
    yield from quality(composed)
    yield from admitted(composed)
    yield from room(composed)
    yield from preemption(config)


def accounting(config: Mapping[str, str]) -> Iterator[Finding]:
    """sacct, and whether anything is recorded."""
    for name, loss in _WISHED.items():
        if not shutil.which(name):
            yield Finding(WARNING, name, "is not on PATH", loss)
    kind = config.get("AccountingStorageType", "(null)")
    if "none" in kind or kind == "(null)":
        yield Finding(WARNING, "accounting", "is off", "ends of jobs that left no record stay unknown; runs are safe")
        return
    try:
        command.run(["sacct", "-X", "--noheader", "--parsable2", "--format=JobID", "--starttime", "now-1hour"])
    except (command.Unavailable, command.Refused) as error:
        yield Finding(WARNING, "accounting", str(error), "ends of jobs that left no record stay unknown for now")
    else:
        yield Finding(OK, "accounting", f"on ({kind.rpartition('/')[2]})")


def partitions(text: str) -> dict[str, dict[str, str]]:
    """`scontrol --oneliner show partition` by name."""
    found = {}
    for line in text.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if "PartitionName" in fields:
            found[fields["PartitionName"]] = fields
    return found


def partition(composed: Composed) -> Iterator[Finding]:
    """Whether the partitions asked for exist, are up, and last long enough."""
    cluster = composed.settings.cluster
    known = partitions(command.run(["scontrol", "--oneliner", "show", "partition"]))
    default = [name for name, fields in known.items() if fields.get("Default") == "YES"]
    wanted = cluster.partition.split(",") if cluster.partition else default
    if not wanted:
        remedy = f"set cluster.partition to one of {', '.join(sorted(known))}"
        yield Finding(FAILURE, "partition", "none was asked for and the cluster has no default", remedy)
    for name in wanted:
        fields = known.get(name)
        if fields is None:
            remedy = f"cluster.partition is one of {', '.join(sorted(known))}"
            yield Finding(FAILURE, "partition", f"{name} does not exist", remedy)
            continue
        longest = queue.seconds(fields.get("MaxTime", "UNLIMITED"))
        if fields.get("State", "UP") != "UP":
            yield Finding(WARNING, "partition", f"{name} is {fields['State']}", "jobs wait until it is up")
        elif longest is not None and longest < cluster.hours * 3600:
            text = f"{name} ends jobs after {fields['MaxTime']}, cluster.time_limit is {cluster.time_limit}"
            yield Finding(
                FAILURE, "partition", text, f"set cluster.time_limit={fields['MaxTime']}; runs go on by themselves"
            )
        else:
            yield Finding(OK, "partition", f"{name} is up, {fields.get('TotalNodes', '?')} nodes")


def quality(composed: Composed) -> Iterator[Finding]:
    """Whether the QOS exists."""
    qos = composed.settings.cluster.qos
    if not qos:
        return
    try:
        text = command.run(["sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=Name"])
    except (command.Unavailable, command.Refused) as error:
        yield Finding(WARNING, "QOS", f"{qos}: not known whether it exists", str(error))
        return
    names = sorted(line.strip() for line in text.splitlines() if line.strip())
    if qos in names:
        yield Finding(OK, "QOS", f"{qos} exists")
    else:
        yield Finding(FAILURE, "QOS", f"{qos} does not exist", f"cluster.qos is one of {', '.join(names)}")


def request(composed: Composed, snapshot: str) -> script.Request:
    """What a job of this run would ask for."""
    config = to_plain(composed.settings)
    return script.request({"id": "doctor", "config": config, "provenance": {"snapshot": snapshot}})


def admitted(composed: Composed) -> Iterator[Finding]:
    """Whether SLURM would take the job: `sbatch --test-only` on the very script."""
    asked = request(composed, "/")
    with tempfile.TemporaryDirectory(prefix="harness-doctor-") as place:
        path = Path(place) / "submission.sh"
        path.write_text(script.ArrayExecutor(Path(place), asked, "doctor", "doctor").text(1), encoding="utf-8")
        try:
            answer = command.run(["sbatch", "--test-only", str(path)])
        except (command.Unavailable, command.Refused) as error:
            remedy = "correct account, partition, qos or resources in conf/cluster/slurm.yaml"
            yield Finding(FAILURE, "request", _shape(asked), f"{error}; {remedy}")
            return
    yield Finding(OK, "request", f"{_shape(asked)} would be taken" + (f" ({answer.strip()})" if answer.strip() else ""))


def _shape(asked: script.Request) -> str:
    gpus = f"{asked.gpus} {asked.gpu_type or 'GPUs'}, " if asked.gpus else ""
    nodes = f"{asked.nodes} nodes with " if asked.nodes > 1 else ""
    return f"{nodes}{gpus}{asked.cpus} cores, {asked.memory_mb / 1024:g} GiB, {asked.minutes} minutes"


def room(composed: Composed) -> Iterator[Finding]:
    """Array size and submit limits."""
    cluster = composed.settings.cluster
    me = getpass.getuser()
    found = limits.ask(me, cluster.account, cluster.qos, cluster.partition)
    text = f"arrays of up to {found.array_size} runs"
    if found.jobs is not None:
        text += f", {found.jobs} jobs at once ({found.source})"
    yield Finding(OK, "limits", f"{text}; a larger sweep is split, what is beyond a limit follows by itself")


def preemption(config: Mapping[str, str]) -> Iterator[Finding]:
    """What preemption and requeueing do to runs."""
    mode, kind = config.get("PreemptMode", "OFF"), config.get("PreemptType", "")
    if kind.endswith("none") or not kind or mode == "OFF":
        yield Finding(OK, "preemption", "off")
    elif "preempt_send_user_signal" in config.get("SlurmctldParameters", ""):
        yield Finding(OK, "preemption", f"{mode}, with a signal ahead: preempted runs save first")
    else:
        remedy = "a preempted run loses what it trained since its last checkpoint: lower save_every, or ask the site"
        yield Finding(WARNING, "preemption", f"{mode}, without preempt_send_user_signal", remedy)
    if config.get("JobRequeue", "1") == "0":
        yield Finding(OK, "requeue", "off by default here, but asked for by every job of ours")
