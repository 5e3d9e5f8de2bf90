"""Parts of the page that are tables and lists."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path

from analysis.comparison.ablation import Study
from analysis.comparison.configs import decides, varying
from analysis.comparison.results import Results
from analysis.report import tables
from analysis.report.html import badge, items, swatch, table, text
from analysis.statistics.entropy import Health

_KIND = {"finished": "good", "failed": "bad", "crashed": "bad", "running": "warn"}
_SHOWN = 40
_PACKAGES = ("numpy", "pandas", "pyarrow", "scipy", "plotly", "matplotlib")


def summary(lines: Sequence[str], cautions: Sequence[str], question: str) -> str:
    """The head of the page: what was asked, what the intervals support, and what to beware of."""
    asked = f'<p class="question">{text(question)}</p>' if question else ""
    warned = ""
    if cautions:
        shown, rest = cautions[:_SHOWN], cautions[_SHOWN:]
        more = f"<details><summary>{len(rest)} more</summary>{items(map(text, rest))}</details>" if rest else ""
        warned = f'<div class="card warnings"><h3>Warnings</h3>{items(map(text, shown))}{more}</div>'
    return f'<div class="card summary">{asked}{items(map(text, lines))}</div>{warned}'


def results(content: tables.Table) -> str:
    """The table with links to its other forms."""
    links = " ".join(
        f'<a href="{name}">{label}</a>'
        for name, label in (("table.csv", "CSV"), ("table.md", "Markdown"), ("table.tex", "LaTeX"))
    )
    return (
        f'<div class="card"><div class="chart-head"><span class="tools">{links}</span></div>'
        f'{tables.as_html(content)}<p class="caption">{text(content.caption)}</p></div>'
    )


def runs(study: Study, health: Mapping[str, Health], folder: Path) -> str:
    """One row a run: state, steps, entropy health, link to its folder."""
    rows = []
    for arm in study.arms:
        for run in arm.runs:
            found = health.get(run.id)
            verdict = "not logged" if found is None else found.text
            kind = "bad" if found is not None and found.alarming else ""
            last = "none" if run.last_step is None else str(run.last_step)
            where = "" if run.folder is None else f'<a href="{text(_link(run.folder, folder))}">folder</a>'
            seed = run.seed
            rows.append(
                (f"{swatch(arm.color)}{text(arm.label)}", "" if seed is None else text(seed),
                 f"<code>{text(run.id)}</code>", badge(run.state, _KIND.get(run.state, "")), last,
                 badge(verdict, kind) if kind else text(verdict), where)
            )  # fmt: skip
    head = ("arm", "seed", "run", "state", "last step", "entropy", "files")
    return f'<div class="card">{table(head, rows, numbers=(1, 4))}</div>'


def configs(study: Study) -> str:
    """Every config key on which the runs differ, but for names and times of the runs themselves."""
    values_of = varying(study.runs)
    found = {key: values_of[key] for key in values_of if decides(key) or not key.startswith(("provenance.", "verl."))}
    if not found:
        return '<div class="card"><p class="caption">The runs do not differ in their configs.</p></div>'
    rows = []
    for key, values in found.items():
        by_value: dict[str, int] = {}
        for value in values:
            by_value[value] = by_value.get(value, 0) + 1
        shown = [f"<code>{text(value)}</code> ({count})" for value, count in list(by_value.items())[:12]]
        more = f" and {len(by_value) - 12} more" if len(by_value) > 12 else ""
        rows.append((f"<code>{text(key)}</code>", ", ".join(shown) + more))
    note = '<p class="caption">Values with the number of runs that have them.</p>'
    return f'<div class="card">{table(("key", "values"), rows)}{note}</div>'


def provenance(study: Study, results: Results | None, written: datetime) -> str:
    """Which code made the runs and this page, from which files."""
    commits: dict[str, None] = {}
    versions: dict[str, dict[str, None]] = {}
    for run in study.runs:
        sha = run.get("provenance.git_sha", None)
        if sha:
            dirty = " with uncommitted changes" if run.get("provenance.git_dirty", False) else ""
            commits[f"{str(sha)[:12]}{dirty}"] = None
        for name, version in (run.get("provenance.versions", None) or {}).items():
            versions.setdefault(str(name), {})[str(version)] = None
    scorers = sorted({name for tally in study.tallies.values() for name in tally.scorers})
    made = sorted(run.created for run in study.runs if run.created is not None)
    files = [name for run in study.runs for name in run.files]
    pairs = [
        ("written", written.strftime("%Y-%m-%d %H:%M:%S UTC")),
        ("runs created", f"{made[0]:%Y-%m-%d %H:%M} to {made[-1]:%Y-%m-%d %H:%M} UTC" if made else "unknown"),
        ("runs' commit", ", ".join(commits) or "unknown"),
        ("runs' versions", ", ".join(f"{name} {'/'.join(seen)}" for name, seen in versions.items()) or "unknown"),
        ("scorer", ", ".join(scorers) or "unknown"),
        ("evaluation", _evaluation(study, results)),
        ("curves from", ", ".join(sorted({run.source for run in study.runs}))),
        ("this page by", ", ".join([f"python {platform.python_version()}", *map(_version, _PACKAGES)])),
    ]
    listed = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in pairs)
    paths = items(f"<code>{text(name)}</code>" for name in files)
    block = f"<details><summary>{len(files)} log files</summary>{paths}</details>" if files else ""
    return f'<div class="card"><dl class="facts-list">{listed}</dl>{block}</div>'


def _evaluation(study: Study, results: Results | None) -> str:
    if results is None:
        return "none"
    return f"step {results.step}, " + ("as logged" if results.logged else f"{study.samples} samples a problem")


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} not installed"


def _link(target: Path, folder: Path) -> str:
    """A relative link, so that the store and the reports can be moved together."""
    return Path(os.path.relpath(target.resolve(), folder.resolve())).as_posix() + "/"
