"""What SLURM says to a run before it is submitted: programs, accounting, partition, QOS, limits, preemption."""

from __future__ import annotations

import getpass
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from harness.commands.doctor.findings import FAILURE, OK, WARNING, Finding
from harness.config.compose import Composed
from harness.config.typed import to_plain
from harness.slurm import command, limits, partitions, script

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
        yield Finding(FAILURE, "SLURM", str(error))
        return
    yield Finding(OK, "SLURM", f"{config.get('SLURM_VERSION', 'version unknown')}, {config.get('ClusterName', '')}")
    known = partitions.ask()
    yield from accounting(config)
    yield from account(composed, config)
    yield from partition(composed, known)
    yield from quality(composed)
    yield from admitted(composed, known)
    yield from room(composed)
    yield from preemption(composed, config, known)


def accounting(config: Mapping[str, str]) -> Iterator[Finding]:
    """sacct, and whether anything is recorded."""
    for name, loss in _WISHED.items():
        if not shutil.which(name):
            yield Finding(WARNING, name, "is not on PATH", loss)
    kind = config.get("AccountingStorageType", "")
    if _off(config):
        yield Finding(WARNING, "accounting", "is off", "ends of jobs that left no record stay unknown; runs are safe")
        return
    try:
        command.run(["sacct", "-X", "--noheader", "--parsable2", "--format=JobID", "--starttime", "now-1hour"])
    except (command.Unavailable, command.Refused) as error:
        yield Finding(WARNING, "accounting", str(error), "ends of jobs that left no record stay unknown for now")
    else:
        yield Finding(OK, "accounting", f"on ({kind.rpartition('/')[2]})")


def _off(config: Mapping[str, str]) -> bool:
    kind = config.get("AccountingStorageType", "(null)")
    return "none" in kind or kind == "(null)"


def account(composed: Composed, config: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the account that is charged is one of the user's."""
    me, asked = getpass.getuser(), composed.settings.cluster.account
    enforced = "associations" in config.get("AccountingStorageEnforce", "") or "limits" in config.get(
        "AccountingStorageEnforce", ""
    )
    if _off(config):
        return
    try:
        mine = limits.accounts(me)
    except (command.Unavailable, command.Refused) as error:
        yield Finding(WARNING, "account", f"yours are not known ({error})")
        return
    level = FAILURE if enforced else WARNING
    if not mine.names:
        if enforced or asked:
            yield Finding(level, "account", f"{me} has none in SLURM's accounting", "ask the site for one")
    elif asked and asked not in mine.names:
        text = f"{asked} is none of yours" + ("" if enforced else ", and nobody checks it here")
        yield Finding(level, "account", text, f"cluster.account is one of {', '.join(mine.names)}")
    else:
        yield Finding(
            OK, "account", f"{asked} is charged" if asked else f"{mine.default or mine.names[0]}, your default"
        )


def partition(composed: Composed, known: Mapping[str, partitions.Fields]) -> Iterator[Finding]:
    """Whether the partitions asked for exist, are up, and would ever start the job."""
    cluster, nodes = composed.settings.cluster, composed.settings.model.resources.nodes
    wanted = partitions.wanted(cluster.partition, known)
    if not wanted:
        remedy = f"set cluster.partition to one of {', '.join(sorted(known))}"
        yield Finding(FAILURE, "partition", "none was asked for and the cluster has no default", remedy)
    level = FAILURE if partitions.refusal(known, cluster, nodes) else WARNING  # one of several is enough
    for name in wanted:
        fields = known.get(name)
        if fields is None:
            remedy = f"cluster.partition is one of {', '.join(sorted(known))}"
            yield Finding(FAILURE, "partition", f"{name} does not exist", remedy)
        elif fields.get("State", "UP") != "UP":
            yield Finding(WARNING, "partition", f"{name} is {fields['State']}", "jobs wait until it is up")
        elif obstacles := list(partitions.obstacles(name, fields, cluster, nodes)):
            for text, remedy in obstacles:
                yield Finding(level, "partition", text.removeprefix("partition "), remedy)
        else:
            yield Finding(OK, "partition", f"{name} is up, {fields.get('TotalNodes', '?')} nodes")


def quality(composed: Composed) -> Iterator[Finding]:
    """Whether the QOS exists, and lasts long enough."""
    cluster = composed.settings.cluster
    if not cluster.qos:
        return
    try:
        known = limits.longest()
    except (command.Unavailable, command.Refused) as error:
        yield Finding(WARNING, "QOS", f"{cluster.qos}: not known whether it exists", str(error))
        return
    if cluster.qos not in known:
        remedy = f"cluster.qos is one of {', '.join(sorted(known))}"
        yield Finding(FAILURE, "QOS", f"{cluster.qos} does not exist", remedy)
    elif why := limits.too_long(known[cluster.qos], cluster):
        yield Finding(FAILURE, "QOS", why)
    else:
        yield Finding(OK, "QOS", f"{cluster.qos} exists")


def request(composed: Composed, snapshot: str) -> script.Request:
    """What a job of this run would ask for."""
    config = to_plain(composed.settings)
    return script.request({"id": "doctor", "config": config, "provenance": {"snapshot": snapshot}})


def admitted(composed: Composed, known: Mapping[str, partitions.Fields]) -> Iterator[Finding]:
    """Whether SLURM would take the job: `sbatch --test-only` on the very script."""
    asked = request(composed, "/")
    with tempfile.TemporaryDirectory(prefix="harness-doctor-") as place:
        path = Path(place) / "submission.sh"
        path.write_text(script.ArrayExecutor(Path(place), asked, "doctor", "doctor").text(1), encoding="utf-8")
        try:
            answer = command.run(["sbatch", "--test-only", str(path)])
        except command.Unavailable as error:
            yield Finding(FAILURE, "request", _shape(asked), str(error))
            return
        except command.Refused as error:
            if "node configuration" in str(error):
                remedy = _nodes(partitions.wanted(composed.settings.cluster.partition, known))
            else:
                remedy = "correct account, partition, qos or resources in conf/cluster/slurm.yaml"
            yield Finding(FAILURE, "request", f"{_shape(asked)}: {error}", remedy)
            return
    yield Finding(OK, "request", f"{_shape(asked)} would be taken" + (f" ({answer.strip()})" if answer.strip() else ""))


def _nodes(wanted: Collection[str]) -> str:
    """What the largest nodes of some partitions have, for whom asked for more."""
    try:
        text = command.run(["sinfo", "--noheader", "--format=%R|%c|%m|%G"])
    except (command.Unavailable, command.Refused):
        return "ask for less"
    rows = [line.split("|") for line in text.splitlines()]
    sizes = {(row[0], *row[1:]) for row in rows if len(row) == 4 and row[0] in wanted}
    told = [f"{name}'s nodes have {cores} cores, {int(re.sub(r'[^0-9]', '', mb)) / 1024:.0f} GiB"
            + ("" if gres == "(null)" else f", {gres}") for name, cores, mb, gres in sorted(sizes)]  # fmt: skip
    return "; ".join(told[:3]) or "ask for less"


def _shape(asked: script.Request) -> str:
    gpus = f"{asked.gpus} {asked.gpu_type or 'GPUs'}, " if asked.gpus else ""
    nodes = f"{asked.nodes} nodes with " if asked.nodes > 1 else ""
    return f"{nodes}{gpus}{asked.cpus} cores, {asked.memory_mb / 1024:g} GiB, {asked.minutes / 60:.3g} hours"


def room(composed: Composed) -> Iterator[Finding]:
    """Array size and submit limits."""
    cluster = composed.settings.cluster
    found = limits.ask(getpass.getuser(), cluster.account, cluster.qos, cluster.partition)
    text = f"arrays of up to {found.array_size} runs"
    tightest = found.tightest()
    if tightest is not None:
        text += f", {tightest.most} jobs at once ({tightest.source})"
    if found.trouble:
        yield Finding(WARNING, "limits", f"{text}; your own are not known ({found.trouble})")
    elif tightest is not None and tightest.most == 1:
        remedy = "what is beyond it is submitted when the sweep is applied again"
        yield Finding(WARNING, "limits", text, remedy)
    else:
        yield Finding(OK, "limits", f"{text}; a larger sweep is split, what is beyond a limit follows by itself")


def preemption(
    composed: Composed, config: Mapping[str, str], known: Mapping[str, partitions.Fields]
) -> Iterator[Finding]:
    """What preemption and requeueing do to runs of these partitions."""
    mode, kind = config.get("PreemptMode", "OFF"), config.get("PreemptType", "")
    asked = partitions.wanted(composed.settings.cluster.partition, known)
    mine = {name: known[name] for name in asked if name in known}
    touched = {name: fields for name, fields in mine.items() if fields.get("PreemptMode", mode) != "OFF"}
    hasty = [name for name, fields in touched.items() if fields.get("GraceTime") == "0"]
    remedy = "a preempted run loses what it trained since its last checkpoint: lower save_every, or ask the site"
    if kind.endswith("none") or not kind or mode == "OFF":
        yield Finding(OK, "preemption", "off")
    elif mine and not touched:
        yield Finding(OK, "preemption", f"off in partition {', '.join(mine)}")
    elif "preempt_send_user_signal" not in config.get("SlurmctldParameters", ""):
        yield Finding(WARNING, "preemption", f"{mode}, without preempt_send_user_signal", remedy)
    elif hasty:
        yield Finding(WARNING, "preemption", f"{mode}, with no GraceTime in partition {', '.join(hasty)}", remedy)
    else:
        yield Finding(OK, "preemption", f"{mode}, with a signal ahead: preempted runs save first")
    if config.get("JobRequeue", "1") == "0":
        yield Finding(OK, "requeue", "off by default here, but asked for by every job of ours")
