"""docs/gpu.md says what verl's own package metadata and the sweep files say."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.config import grid
from harness.config.compose import project_folder

README = (project_folder() / "README.md").read_text()
TEXT = (project_folder() / "docs" / "gpu.md").read_text()


@pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="verl is not installed here")
def test_versions_are_the_pins_of_the_installed_verl():
    pins = dict(
        re.findall(r"^(torch|torchvision|torchaudio|vllm|transformers)==([\d.]+); extra == \"vllm\"", requirement)[0]
        for requirement in importlib.metadata.requires("verl") or ()
        if re.match(r"(torch|torchvision|torchaudio|vllm|transformers)==[\d.]+; extra == \"vllm\"", requirement)
    )
    assert set(pins) == {"torch", "torchvision", "torchaudio", "vllm", "transformers"}
    for version in pins.values():
        assert version in TEXT
    flash = [r for r in importlib.metadata.requires("verl") or () if r.startswith("flash-attn")]
    assert re.search(r"==([\d.]+)", flash[0])[1] in TEXT
    installed = importlib.metadata.version("verl")
    assert f"verl[vllm]=={installed}" in TEXT
    for recipe in ("Dockerfile", "apptainer.def"):
        assert f"verl[vllm]=={installed}" in (project_folder() / "docs" / recipe).read_text()


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (TEXT, r"^\| (\w+) \|[^|]*\| (\d+) \| ([\d,]+) \|$"),
        (README, r"^\| `(\w+)` \|[^|]*\| (\d+) \|[^|]*\|[^|]*\| ([\d,]+) \|$"),
    ],
)
def test_runs_and_hours_of_every_study_are_its_files(text, row):
    stated = {name: grid.load(name) for name in grid.names() if "/" not in name}
    assert {name: (int(runs), float(hours.replace(",", ""))) for name, runs, hours in re.findall(row, text, re.M)} == {
        name: (len(study.points), study.gpu_hours) for name, study in stated.items() if study.gpu_hours is not None
    }


def test_an_installation_into_a_verl_environment_cannot_move_torch():
    """No requirement of the package, nor any of theirs, leads to what a verl environment has pinned."""
    project = tomllib.loads((project_folder() / "pyproject.toml").read_text())["project"]
    left = [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"]["score"]]
    seen: set[str] = set()
    while left:
        needed = left.pop()
        name = canonicalize_name(needed.name)
        if name in seen:
            continue
        seen.add(name)
        for text in importlib.metadata.requires(name) or ():
            below = Requirement(text)
            if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in ("", *needed.extras)):
                left.append(below)
    assert {"hydra-core", "sympy", "pyarrow"} <= seen, "the walk gets somewhere"
    assert seen & {"torch", "verl", "vllm", "transformers", "ray", "tensordict", "flash-attn", "triton"} == set()
