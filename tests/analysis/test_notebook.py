"""The review notebook: short, without helper code or outputs, and it runs."""

from __future__ import annotations

import ast
import json

import pytest

from analysis import cli, notebook

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: it is in the extra `notebook`")


@pytest.fixture(scope="module")
def cells():
    return nbformat.read(notebook.template(), as_version=4).cells


def test_is_a_dozen_short_cells_without_outputs(cells):
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert 8 <= len(cells) <= 16
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert all(len(cell.source.splitlines()) <= 12 for cell in cells)


def test_holds_no_helper_code(cells):
    for cell in cells:
        if cell.cell_type == "code":
            source = "\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))
            kinds = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.While, ast.Try)
            assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)], cell.source


@pytest.mark.slow
def test_runs_on_a_sweep_and_gives_a_page_that_needs_no_network(smoke_root, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HARNESS_RUNS", str(smoke_root))
    assert cli.main(["notebook", "smoke", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "review.ipynb"), str(tmp_path / "review.html")]
    executed = json.loads((tmp_path / "review.ipynb").read_text())
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 10
    assert not [output for output in outputs if output["output_type"] == "error"]
    page = (tmp_path / "review.html").read_text()
    assert 'src="http' not in page
    assert "cdnjs" not in page
    assert "QAE K=0.4" in page


@pytest.mark.slow
def test_a_cell_that_fails_is_one_line(smoke_root, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HARNESS_RUNS", str(smoke_root))
    assert cli.main(["notebook", "smokee", "--out", str(tmp_path / "out")]) == 2
    assert "did you mean smoke" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_filter_leaves_out_the_other_runs(smoke_root, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_RUNS", str(smoke_root))
    assert cli.main(["notebook", "smoke", "--filter", "baseline.K=0.4", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "review.html").read_text()
    assert "QAE K=0.4" in page
    assert "QAE K=0.8" not in page


@pytest.mark.slow
def test_logs_without_evaluations_are_reviewed_too(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("step,entropy_avg\n" + "".join(f"{i},{1 / i}\n" for i in range(1, 30)))
    assert cli.main(["notebook", "theirs", "--source", f"csv:{tmp_path / 'a.csv'}", "--out", str(tmp_path)]) == 0
    executed = json.loads((tmp_path / "review.ipynb").read_text())
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert "No run was evaluated" in (tmp_path / "review.html").read_text()
