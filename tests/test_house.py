"""The rooms of the house: how many there are, which may import which, and that the pages about them are true."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]


def rooms(package):
    """(packages, loose modules) directly in a package."""
    entries = [p for p in (ROOT / package).iterdir() if not p.name.startswith((".", "__pycache__"))]
    return [p.name for p in entries if p.is_dir()], [p.name for p in entries if p.suffix == ".py"]


@pytest.mark.parametrize(("package", "most"), [("harness", 9), ("analysis", 6)])
def test_a_newcomer_can_count_the_rooms(package, most):
    packages, modules = rooms(package)
    assert len(packages) <= most, packages
    assert len(modules) <= 8, modules


def test_every_verb_is_a_module_with_help_arguments_and_run():
    from harness.cli import PROGRAM

    for verb in PROGRAM.verbs:
        module = PROGRAM._module(verb)
        assert module.HELP
        assert callable(module.add_arguments)
        assert callable(module.run)
        with pytest.raises(SystemExit) as ended:
            PROGRAM.main([verb, "--help"])
        assert ended.value.code == 0


@pytest.mark.slow
def test_a_forbidden_import_breaks_the_contract(tmp_path):
    for name in ("harness", "analysis"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def lint():
        return subprocess.run(LINT, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert lint().returncode == 0, lint().stdout
    usage = tmp_path / "harness" / "store" / "usage.py"
    usage.write_text(usage.read_text() + "\n\nfrom harness.planning import plan  # noqa\n")
    broken = lint()
    assert broken.returncode == 1
    assert "harness.store.usage -> harness.planning.plan" in broken.stdout


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "README.md"])
def test_a_page_names_only_files_that_are_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    tops = (
        "harness|analysis|tests|docs|benchmarks" if page == "README.md" else "harness|analysis|conf|sweeps|tests|docs"
    )
    named = set(re.findall(rf"(?<![\w/.])(?:{tops})/[\w./*-]*[\w*]", text))
    assert named
    missing = [name for name in sorted(named) if not list(ROOT.glob(name))]
    assert not missing
