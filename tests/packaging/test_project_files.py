"""What is said in several places about the project is said alike."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from file_schemas import faults
from scripts_modules import script

from shuffledp.version import __version__

yaml: Any = importlib.import_module("yaml")
ROOT = Path(__file__).parents[2]
RESOLVERS = {
    letter: [one for one in rules if one[0] != "tag:yaml.org,2002:bool" or letter in "tTfF"]
    for letter, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Words = type("Words", (yaml.SafeLoader,), {"yaml_implicit_resolvers": RESOLVERS})
"""Reads YAML in which `on` is a word, as GitHub does."""
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
    jobs = yaml.safe_load(text)["jobs"]
    assert "secrets." not in text
    for job in ("pypi", "npm"):
        assert jobs[job]["needs"] == "build" and jobs[job]["environment"] == "release"
        assert jobs[job]["permissions"] == {"id-token": "write"}
        assert not [one for one in jobs[job]["steps"] if "make" in one.get("run", "")]
    assert "pip install" not in text  # `make dist` installs by hash, the tests run elsewhere
    assert "attest-build-provenance" in text and "npm publish --provenance" in text


def test_the_rehearsal_runs_every_step_of_the_release_but_the_upload() -> None:
    steps = script("rehearse_release").steps
    build, pypi, npm = (list(steps(job)) for job in ("build", "pypi", "npm"))
    assert [one for one in build if "GITHUB_REF_NAME" in one] and "make dist" in build
    assert len(pypi) == 1 and npm == ["npm publish --dry-run --access public ./dist/*.tgz"]


@pytest.mark.parametrize(
    ("schema", "file", "key"),
    [
        ("github-workflows", ".github/workflows/ci.yml", "runs-on:"),
        ("github-workflows", ".github/workflows/release.yml", "runs-on:"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml", "label:"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/idea.yml", "label:"),
        ("citation-file-format", "CITATION.cff", "authors:"),
    ],
)
def test_files_follow_their_schemas(schema: str, file: str, key: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    assert not faults(schema, yaml.load(text, Loader=Words))
    assert faults(schema, yaml.load(text.replace(key, f"not-{key}"), Loader=Words))


def test_requirements_have_hashes_and_name_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = script("lock")
    assert not lock.problems()
    text = "a==1 --hash=sha256:" + "0" * 64 + "\nb==2\n"
    assert lock.pinned(text) == {"a": ("1", ["sha256:" + "0" * 64]), "b": ("2", [])}
    monkeypatch.setattr(lock, "pinned", lambda _: {"numpy": ("", [])})
    said = " ".join(lock.problems())
    assert "lacks uvicorn; run make lock" in said and "no hash for numpy" in said


def test_addresses_agree() -> None:
    urls = PROJECT["urls"]
    package = json.loads((ROOT / "clients/js/package.json").read_text("utf-8"))
    assert package["repository"]["url"] == f"git+{urls['Repository']}.git"
    assert package["bugs"] == urls["Issues"] and package["homepage"] == urls["Documentation"]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nrepository-code: {urls['Repository']}\n" in citation


def test_the_lists_of_packages_name_what_wheel_and_image_hold() -> None:
    found = script("sbom").documents()
    wheel, image = found["shuffledp.cdx.json"], found["shuffledp-image.cdx.json"]
    scopes = {one["name"]: one["scope"] for one in wheel["components"]}
    assert scopes["python-flint"] == "required" and scopes["uvicorn"] == "optional"
    assert not scopes.keys() & {"pytest", "mypy", "pyspark", "babel", "shuffledp"}
    assert wheel["metadata"]["component"]["name"] == "shuffledp"
    names = {one["name"] for one in image["components"]}
    assert names == {*scopes, "shuffledp", "docker.io/library/python"}
    assert image["metadata"]["component"]["type"] == "container"
    fault = script("check_dist").sbom_fault
    for document in (wheel, image):
        refs = {one["bom-ref"] for one in document["components"]}
        refs.add(document["metadata"]["component"]["bom-ref"])
        assert all({one["ref"], *one["dependsOn"]} <= refs for one in document["dependencies"])
        assert fault(json.dumps(document)) is None
    assert fault(json.dumps({**wheel, "components": [{"name": "x"}]})) is not None


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
    assert "one npm package" in said and "shuffledp-image.cdx.json is missing" in said


def test_the_readme_of_the_index_has_no_link_into_the_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, str] = {}
    monkeypatch.setattr("setuptools.setup", lambda **named: given.update(named))
    runpy.run_path(str(ROOT / "setup.py"))
    relative = script("check_dist").RELATIVE
    assert not relative.search(given["long_description"])
    assert relative.search((ROOT / "README.md").read_text("utf-8"))
    assert f"{PROJECT['urls']['Repository']}/blob/main/docs/" in given["long_description"]


LIGHT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in set(sys.argv[1].split(",")):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import pytest
sys.exit(pytest.main(["--collect-only", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def test_the_light_set_up_has_what_its_tests_import() -> None:
    """`make dev`'s tests are collected where no package that only other extras bring is found."""
    lock, extras = script("lock"), tuple(PROJECT["optional-dependencies"])
    others = lock.direct_names(extras) - lock.direct_names(("dev",))
    away = {
        module
        for module, packages in packages_distributions().items()
        if others & {lock.plain(package) for package in packages}
    }
    assert {"pandas", "pyspark", "starlette"} <= away and "httpx2" not in away
    make = ["make", "--dry-run", "--no-print-directory", "dev"]
    said = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    tests = said.stdout.rpartition("-m unit ")[2].split()

    def collect(*files: str) -> int:
        words = [sys.executable, "-c", LIGHT, ",".join(sorted(away)), *files]
        return subprocess.run(words, cwd=ROOT, capture_output=True, check=False).returncode

    assert len(tests) > 10 and collect(*tests) == 0
    assert collect("tests/queries/test_silently_wrong.py") != 0  # it needs pandas
