"""The verb `notebook`: executes notebooks/review.ipynb on a sweep, into reports/<sweep>/."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

from analysis import listing
from analysis.report.command import default_folder
from harness.errors import HarnessError
from harness.files import write_text

HELP = "run notebooks/review.ipynb on a sweep into reports/"
_MERMAID = re.compile(r'<script type="module">(?:(?!</script>).)*?mermaid.*?</script>', re.DOTALL)
TIMEOUT = 600
"""Seconds that one cell may take."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sweep and a source."""
    listing.add_source(parser)
    parser.add_argument("sweep", metavar="SWEEP", help="the sweep to review")
    parser.add_argument("--against", metavar="ARM", help="the arm to compare with (default: the sweep's, or mean)")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: reports/SWEEP)")


def run(options: argparse.Namespace) -> int:
    """Executes the notebook and prints the paths of the two files."""
    listing.configure_logging(options)
    folder = Path(options.out) if options.out else default_folder(options.sweep)
    for path in execute(options.sweep, folder, source=options.source, where=options.filter, against=options.against):
        sys.stdout.write(f"{path}\n")
    return 0


def template() -> Path:
    """notebooks/review.ipynb of this checkout.

    Raises:
        HarnessError: the package was installed without its checkout.
    """
    path = Path(__file__).resolve().parents[1] / "notebooks" / "review.ipynb"
    if not path.is_file():
        raise HarnessError(f"{path} is absent: the notebook lies in the project's checkout; install it with pip -e")
    return path


def execute(
    sweep: str, folder: Path, *, source: str = "local", where: str = "", against: str | None = None
) -> tuple[Path, Path]:
    """Runs every cell in a kernel of this environment and writes `folder`/review.ipynb and review.html.

    Raises:
        HarnessError: a package of the extra `notebook` is missing, or a cell failed: its error's last line.
    """
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError
        from nbconvert import HTMLExporter
        from traitlets.config import Config
    except ImportError as error:
        raise HarnessError(f"notebooks need {error.name}: pip install -e '.[notebook]'") from None
    notebook = nbformat.read(template(), as_version=4)
    environment = {**os.environ, "SWEEP": sweep, "SOURCE": source, "FILTER": where, "AGAINST": against or ""}
    try:
        with tempfile.TemporaryDirectory(prefix="review-") as sockets:
            # Login nodes are shared: the kernel talks through files that only we can open, not over TCP.
            config = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
            client = NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", config=config)
            client.execute(env=environment, cwd=os.getcwd())
    except CellExecutionError as error:
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(error.evalue)).strip().splitlines()
        raise HarnessError(f"notebook on {sweep!r}: {error.ename}: {said[-1] if said else 'no message'}") from None
    # The page must open without a network: nothing from a content delivery network.
    exporter = HTMLExporter(mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="", embed_images=True)
    page, _ = exporter.from_notebook_node(notebook)
    paths = folder / "review.ipynb", folder / "review.html"
    write_text(paths[0], nbformat.writes(notebook) + "\n")
    write_text(paths[1], _MERMAID.sub("", page))
    return paths
