"""Stand-ins for SLURM's programs: `python programs.py squeue ...`, their state one JSON file in $FAKE_SLURM.

They accept what the harness asks and nothing else. Jobs do not run: a test moves them from state to state.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import re
import sys
import time
from pathlib import Path

FRESH = {
    "next": 1000,
    "jobs": {},
    "wishes": {},
    "calls": [],
    "config": {"MaxArraySize": "1001", "MaxJobCount": "10000"},
}
GONE = "forgotten"


class State:
    """The file, locked while it is open."""

    def __init__(self):
        self._path = Path(os.environ["FAKE_SLURM"]) / "state.json"

    def __enter__(self):
        self._file = self._path.open("a+")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.seek(0)
        text = self._file.read()
        self.value = json.loads(text) if text else json.loads(json.dumps(FRESH))
        return self.value

    def __exit__(self, *error):
        self._file.truncate(0)
        self._file.write(json.dumps(self.value))
        self._file.close()


def fail(text, code=1):
    print(text, file=sys.stderr)
    raise SystemExit(code)


def options(arguments):
    flags = {}
    rest = []
    waiting = iter(arguments)
    for word in waiting:
        if word.startswith("--") and "=" in word:
            key, _, value = word.partition("=")
            flags[key] = value
        elif word in ("--jobs", "--name", "--starttime"):
            flags[word] = next(waiting)
        elif word.startswith("-"):
            flags[word] = ""
        else:
            rest.append(word)
    return flags, rest


def sbatch(state, arguments):
    flags, (script,) = options(arguments)
    text = Path(script).read_text()
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", text, re.M))
    first, last = (int(n) for n in asked["array"].partition("%")[0].split("-"))
    count = last - first + 1
    wishes = state["wishes"]
    if wishes.get("refuse"):
        fail(f"sbatch: error: {wishes['refuse']}")
    if "--test-only" in flags:
        return ""
    live = sum(job["state"] in ("PENDING", "RUNNING") for job in state["jobs"].values())
    if "most" in wishes and live + count > wishes["most"]:
        fail("sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
             "accounting/QOS policy (job submit limit, user's size and/or time limits)")  # fmt: skip
    if count > int(state["config"]["MaxArraySize"]):
        fail("sbatch: error: Batch job submission failed: Invalid job array specification")
    array = str(state["next"])
    state["next"] += 1
    for index in range(first, last + 1):
        state["jobs"][f"{array}_{index}"] = {
            "name": asked["job-name"].strip("'"), "state": "PENDING", "reason": "Priority", "user": getpass.getuser(),
            "node": "", "gpus": int(asked.get("gpus-per-node", "0").strip("'").rpartition(":")[2]), "seconds": 0,
            "script": script, "asked": asked, "exit": "0:0",
        }  # fmt: skip
    if wishes.get("kill_submitter"):  # it dies with the job submitted and the answer unread
        os.kill(os.getppid(), 9)
        time.sleep(0.2)
    return array


def squeue(state, arguments):
    flags, _ = options(arguments)
    if "squeue" in state["wishes"]:
        return state["wishes"]["squeue"]
    assert flags["--format"] == "%A|%F|%K|%T|%r|%M|%L|%N|%j|%u|%q|%a|%P", flags
    lines = []
    for name, job in state["jobs"].items():
        array, index = name.split("_")
        if job["state"] == GONE or job.get("left_queue"):
            continue
        if "--name" in flags and job["name"] not in flags["--name"].split(","):
            continue
        if "--user" in flags and job["user"] not in flags["--user"].split(","):
            continue
        lines.append("|".join([
            str(int(array) * 10 + int(index)), array, index, job["state"], job["reason"], clock(job["seconds"]),
            "1-00:00:00", job["node"], job["name"], job["user"], job["asked"].get("qos", "normal").strip("'"),
            job["asked"].get("account", "team").strip("'"), job["asked"].get("partition", "gpu").strip("'"),
        ]))  # fmt: skip
    return "\n".join(lines)


def sacct(state, arguments):
    flags, _ = options(arguments)
    if state["wishes"].get("no_accounting"):
        fail("Slurm accounting storage is disabled")
    arrays = flags.get("--jobs", "").split(",")
    lines = []
    for name, job in state["jobs"].items():
        wanted = name.split("_")[0] in arrays or job["name"] == flags.get("--name")
        if not wanted or job["state"] == GONE:
            continue
        for row in [*job.get("before", []), job]:
            state_word = f"CANCELLED by {os.getuid()}" if row["state"] == "CANCELLED" else row["state"]
            lines.append("|".join([
                name, job["name"], state_word, row["exit"], str(row["seconds"]), f"cpu=2,gres/gpu={job['gpus']}",
                row["node"] or "None assigned", "", "", "",
            ]))  # fmt: skip
    return "\n".join(lines)


def scancel(state, arguments):
    for name in arguments:
        job = state["jobs"].get(name)
        if job is None:
            fail(f"scancel: error: Kill job error on job id {name}: Invalid job id specified")
        if job["state"] in ("PENDING", "RUNNING"):
            job["state"] = "CANCELLED"
    return ""


def scontrol(state, arguments):
    if arguments[:2] == ["show", "config"]:
        return "\n".join(f"{key:<24}= {value}" for key, value in state["config"].items())
    if arguments == ["ping"]:
        return "Slurmctld(primary) at fake is UP"
    if arguments[:3] == ["--oneliner", "show", "partition"]:
        return state["wishes"].get("partitions", "PartitionName=gpu State=UP Default=YES MaxTime=UNLIMITED")
    return fail(f"scontrol: not faked: {arguments}")


def sacctmgr(state, arguments):
    what = "associations" if "user" in arguments else "longest" if "format=Name,MaxWall" in arguments else "qos"
    return state["wishes"].get(what, "")


def sinfo(state, arguments):
    return state["wishes"].get("nodes", "gpu|32|200000|gpu:8")


def clock(seconds):
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def main():
    program, *arguments = sys.argv[1:]
    with State() as state:
        state["calls"].append([program, *arguments])
        if state["wishes"].get("outage") in (True, program):
            fail(f"{program}: error: Unable to contact slurm controller (connect failure)")
        answer = globals()[program](state, arguments)
    if answer:
        print(answer)


if __name__ == "__main__":
    main()
