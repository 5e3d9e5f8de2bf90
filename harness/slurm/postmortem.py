"""Completes the records of attempts that were killed before they could do it themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import files
from harness.slurm import accounting, command, submission
from harness.store import claim, evidence
from harness.store.runs import Store, now


def words(root: Path, key: str, job: str, restart: int) -> str:
    """What slurmstepd and srun have written about one attempt, '' where the harness did not submit it."""
    if not key:
        return ""
    logs = sorted((submission.folder(root, key) / "logs").glob(f"{job}.{restart}.*.log"))
    return "\n".join(evidence.tail(path, 1 << 14) for path in logs)


def complete(store: Store, run: str) -> list[str]:
    """Writes the end of each attempt that has none and that nobody works on; returns the causes, oldest first.

    Without evidence a record stays as it is.
    """
    folder = store.folder(run)
    open_ = [a for a in store.attempts(run) if "ended" not in a and a.get("job")]
    if not open_ or claim.owner(folder) is not None:
        return []
    causes = []
    for record in open_:
        attempt = folder / "attempts" / f"{record['attempt']:03d}"
        row = _row(record)
        found = evidence.classify(
            evidence.Traces(
                log=evidence.tail(attempt / "stdout.log"), state=row.state if row else "",
                status=row.exit_code if row else "",
                words=words(store.root, str(record.get("submission", "")), str(record["job"]), int(record["restart"])),
            )
        )  # fmt: skip
        if found.name == "unknown" and row is None:
            continue
        step = store.heartbeat(run).get("step", 0)
        reason = evidence.told(found)
        end = {"ended": now(), "outcome": "lost", "step": step, "cause": found.name, "reason": reason}
        files.write_json(attempt / "attempt.json", {**record, **end})
        store.event(run, "lost", attempt=record["attempt"], cause=found.name, reason=reason)
        causes.append(found.name)
    return causes


def _row(record: dict[str, Any]) -> accounting.Attempt | None:
    """Accounting's row of an attempt, None while there is none or it has not ended there."""
    try:
        rows = accounting.attempts([str(record["job"]).partition("_")[0]])
    except (command.Unavailable, command.Refused):
        return None  # no accounting: the logs must do
    mine = [row for row in rows if row.job == record["job"]]
    restart = int(record["restart"])
    return mine[restart] if restart < len(mine) and mine[restart].state not in ("RUNNING", "PENDING") else None
