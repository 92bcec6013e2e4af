"""What is said in several places about the project is said alike."""

from __future__ import annotations

import json
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

from scripts_modules import script

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


def test_actions_are_pinned_by_commit() -> None:
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: (\S+)(.*)", file.read_text("utf-8"))
        assert used, file.name
        for action, comment in used:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r" # v\d+(\.\d+)*", comment), action


def test_the_release_keeps_no_password_and_publishes_what_was_built() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    assert "secrets." not in text and "id-token: write" in text
    assert "make check test dist" in text and "npm publish --provenance" in text


def test_addresses_agree() -> None:
    urls = PROJECT["urls"]
    package = json.loads((ROOT / "clients/js/package.json").read_text("utf-8"))
    assert package["repository"]["url"] == f"git+{urls['Repository']}.git"
    assert package["bugs"] == urls["Issues"] and package["homepage"] == urls["Documentation"]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nrepository-code: {urls['Repository']}\n" in citation


def test_the_list_of_packages_names_what_an_image_holds() -> None:
    found = script("sbom").document()
    names = {one["name"] for one in found["components"]}
    assert {"cryptography", "python-flint", "starlette", "uvicorn", "asyncpg"} <= names
    assert not names & {"pytest", "mypy", "pyspark", "babel", "shuffledp"}
    assert found["metadata"]["component"]["name"] == "shuffledp"
    assert all(
        one["purl"].startswith("pkg:pypi/") and one["version"] for one in found["components"]
    )


def test_a_wheel_without_its_notices_is_found(tmp_path: Path) -> None:
    check = script("check_dist").problems
    assert check(tmp_path) == ["There must be one wheel and one source archive."]
    info = "shuffledp-1.dist-info"
    with zipfile.ZipFile(tmp_path / "shuffledp-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Name: shuffledp\n\n")
        wheel.writestr("stray.py", "")
    with tarfile.open(tmp_path / "shuffledp-1.tar.gz", "w:gz"):
        pass
    said = " ".join(check(tmp_path))
    for part in ("stray.py", "licence file LICENSE", "NOTICES.md", "URL Issues", "README"):
        assert part in said
