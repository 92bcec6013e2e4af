"""Every notebook runs, and is stored with what its cells show; one that raises is found."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts_modules import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def nbformat() -> Any:
    """Imported when a test runs: what it brings takes seconds."""
    return importlib.import_module("nbformat")


def run(*paths: Path) -> subprocess.CompletedProcess[str]:
    program = str(ROOT / "scripts/run_notebooks.py")
    return subprocess.run(
        [sys.executable, program, *map(str, paths)], capture_output=True, text=True, check=False
    )


def test_all_notebooks_run() -> None:
    assert len(NOTEBOOKS) == 5
    found = run(*NOTEBOOKS)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_it_was_run(nbformat: Any, path: Path) -> None:
    """All cells were run, in their order, and each that ends with a value or a print shows it."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    assert not [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    assert any("image/png" in out.get("data", {}) for cell in cells for out in cell.outputs)


def test_a_notebook_that_raises_is_found(nbformat: Any, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook()
    for source in ("x = 1", "assert x == 1, 'this is true'", "assert x == 2, 'this is not'"):
        notebook.cells.append(nbformat.v4.new_code_cell(source))
    path = tmp_path / "wrong.ipynb"
    path.write_text(nbformat.writes(notebook))
    found = run(path)
    assert found.returncode == 1 and "this is not" in found.stdout
    assert "this is true" not in found.stdout.split("AssertionError")[-1]
