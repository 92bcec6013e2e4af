"""clients/js: it builds, passes its tests under Node, and is what the package's pages carry."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from service_needs import missing

from shuffledp.version import __version__

JS = Path(__file__).resolve().parents[2] / "clients" / "js"
LEAST_NODE = 20


def node(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs Node in the client's folder."""
    return subprocess.run(["node", *words], cwd=JS, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder of a fresh build."""
    found = re.match(r"v(\d+)", node("--version").stdout) if shutil.which("node") else None
    if found is None or int(found[1]) < LEAST_NODE:
        missing(f"Node {LEAST_NODE} or newer", "Debian 13: apt-get install nodejs npm")
    if not (JS / "node_modules" / "typescript").is_dir():
        missing("What clients/js is built with", "run `npm ci` in clients/js, or `make test`")
    shutil.rmtree(JS / "dist", ignore_errors=True)
    for program in ("node_modules/typescript/bin/tsc", "build.mjs"):
        done = node(program)
        assert done.returncode == 0, done.stdout + done.stderr
    return JS / "dist"


def test_the_client_passes_its_tests_and_the_vectors(built: Path) -> None:
    done = node("--test", "test/")
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"# pass (\d+)", done.stdout)
    assert passed is not None and int(passed[1]) > 240


def test_the_package_carries_what_a_fresh_build_gives(built: Path) -> None:
    """The built files are part of the package, which needs no Node; `make client` builds them."""
    carried = Path(str(files("shuffledp.service") / "pages" / "client"))
    fresh = {file.name: file.read_bytes() for file in (built / "bundle").iterdir()}
    assert {file.name: file.read_bytes() for file in carried.iterdir()} == fresh, (
        "the client was changed and not built: run `make client`"
    )


def test_the_documents_carry_what_a_fresh_build_gives(built: Path) -> None:
    """The verifier and the page "See it" are scripts of the documents (`make client`)."""
    for name in ("verify.js", "see.js"):
        fresh = (built / "pages" / "static" / name).read_bytes()
        assert (JS.parents[1] / "docs" / "pages" / name).read_bytes() == fresh, name


def test_versions_are_exact_and_the_lock_has_no_addresses() -> None:
    lock, package = ((JS / f"package{kind}.json").read_text("utf-8") for kind in ("-lock", ""))
    assert "://" not in lock and "resolved" not in lock
    assert (JS / "LICENSE").read_bytes() == (JS.parents[1] / "LICENSE").read_bytes()
    assert f'"version": "{__version__}"' in package
    development = re.search(r'"devDependencies": \{([^}]*)\}', package)
    assert development is not None
    assert all(
        re.fullmatch(r"\d+\.\d+\.\d+", version)
        for version in re.findall(r': "([^"]*)"', development[1])
    )
    assert '"dependencies"' not in package
