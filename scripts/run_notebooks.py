"""Runs the notebooks, each with a fresh kernel in a fresh folder.

    python scripts/run_notebooks.py [--write] [NOTEBOOK …]

A notebook that raises ends this with exit code 1. `--write` stores what the cells show, so that the
site and a reader of the repository see it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CELL_SECONDS = 300


def run(path: Path, write: bool = False) -> str | None:
    """Runs a notebook; returns what went wrong, or None."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            resources={"metadata": {"path": folder}},
            extra_arguments=["--log-level=ERROR"],
        )
        try:
            client.execute()
        except CellExecutionError as error:
            return f"{path.name}: {error}"
    if write:
        _tidy(notebook)
        path.write_text(nbformat.writes(notebook) + "\n", "utf-8")  # type: ignore[no-untyped-call]
    return None


def _tidy(notebook: nbformat.NotebookNode) -> None:
    """Leaves out what changes with every run and says nothing: times, versions, names of cells."""
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata.pop("execution", None)


def main() -> int:
    """Runs those that are named, or all, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("notebooks", nargs="*", type=Path, default=NOTEBOOKS)
    parser.add_argument("--write", action="store_true", help="store what the cells show")
    args = parser.parse_args()
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    with ThreadPoolExecutor(2) as pool:
        faults = [*filter(None, pool.map(lambda path: run(path, args.write), args.notebooks))]
    print("\n".join(faults) or f"{len(args.notebooks)} notebooks ran")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
