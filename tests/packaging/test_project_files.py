"""What is said in several places about the project is said alike."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from shuffledp.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_citation_has_the_version_and_the_licence() -> None:
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {__version__}\n" in text
    assert f"\nlicense: {PROJECT['license']}\n" in text
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")


def test_ci_runs_what_the_classifiers_promise() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    matrix = re.search(r"python: \[(.*)\]", text)
    assert matrix and re.findall(r"3\.\d+", matrix[1]) == promised
    for system in ("ubuntu-latest", "macos-latest", "windows-latest"):
        assert system in text
    folders = re.findall(r"tests/\w+", text)
    assert folders and all((ROOT / folder).is_dir() for folder in folders)
