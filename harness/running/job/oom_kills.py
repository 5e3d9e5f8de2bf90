"""How many processes of this job the kernel has killed for want of memory, from its own cgroup.

slurmstepd says so too, but only after the job's step has ended.
"""

from __future__ import annotations

import re
from pathlib import Path

_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def kills(cgroups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """The count so far, 0 without memory cgroups (Linux: memory.events of version 2, memory.oom_control of 1)."""
    try:
        lines = cgroups.read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            file = root / path.lstrip("/") / "memory.events"
        elif "memory" in controllers.split(","):
            file = root / "memory" / path.lstrip("/") / "memory.oom_control"
        else:
            continue
        try:
            match = _KILLS.search(file.read_text())
        except OSError:
            continue
        if match:
            return int(match[1])
    return 0
