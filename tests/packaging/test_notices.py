"""NOTICES.md names every installed package that carries compiled code, with its licence."""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts_modules import script

ROOT = Path(__file__).parents[2]
COMPILED = re.compile(r"\.(so(\.[\d.]+)?|pyd|dll|dylib|jar)$")
LIBRARY = re.compile(r"\.libs/(lib[A-Za-z0-9_]+)[^/]*$")
EXTRAS = ("client", "frames", "plot", "postgres", "service", "spark", "studio")
IMAGE = script("sbom").EXTRAS
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or find_spec("pyspark") is None,
    reason="NOTICES.md describes the Linux wheels of all extras",
)


def rows(text: str) -> dict[str, tuple[str, str]]:
    """(licence, libraries) by package."""
    found = re.findall(
        r"^\| ([a-z0-9-]+)(?: \(`\w+`\))? \| (.*?) \| (.*?) ?\|$", text, re.MULTILINE
    )
    return {name: (licence, libraries) for name, licence, libraries in found if name != "package"}


def problems(text: str, packages: dict[str, Distribution]) -> list[str]:
    """What the notices lack or have wrong, one sentence each."""
    written, found = rows(text), []
    for name, package in packages.items():
        files = [str(file) for file in package.files or ()]
        if not any(COMPILED.search(file) for file in files):
            continue
        if name not in written:
            found.append(f"{name} has no notice.")
            continue
        licence, libraries = written[name]
        if licence != script("sbom").licence(package):
            found.append(f"The licence of {name} is {script('sbom').licence(package)}.")
        carried = {match[1] for file in files if (match := LIBRARY.search(file))}
        named = set(re.findall(r"lib\w+", libraries))
        found += [f"{name} carries {library}." for library in sorted(carried - named)]
    return found


@pytest.fixture(scope="module")
def packages() -> dict[str, Distribution]:
    found: dict[str, Distribution] = script("sbom").inventory(EXTRAS).packages
    return found


def test_every_package_with_compiled_code_has_a_notice(packages: dict[str, Distribution]) -> None:
    assert {"python-flint", "numpy", "pyarrow", "pyspark"} <= packages.keys()
    assert not problems((ROOT / "NOTICES.md").read_text("utf-8"), packages)


def test_the_contents_of_the_image_are_in_the_first_table(
    packages: dict[str, Distribution],
) -> None:
    text = (ROOT / "NOTICES.md").read_text("utf-8").split("## Other extras")[0]
    held = script("sbom").inventory(IMAGE).packages
    assert not problems(text, held)
    assert rows(text).keys() <= held.keys()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (r"\| apsw .*\n", "", "apsw has no notice"),
        (", libquadmath", ", quadmath", "numpy carries libquadmath"),
        ("MIT AND LGPL-3.0-or-later", "MIT", "licence of python-flint is MIT AND LGPL"),
    ],
)
def test_a_missing_notice_is_found(
    packages: dict[str, Distribution], old: str, new: str, says: str
) -> None:
    text = re.sub(old, new, (ROOT / "NOTICES.md").read_text("utf-8"))
    assert any(says in one for one in problems(text, packages))
    assert len(problems(text, packages)) == 1


def test_the_texts_of_the_lgpl_are_in_the_wheels(packages: dict[str, Distribution]) -> None:
    """NOTICES.md says where they are."""
    flint = [str(file) for file in packages["python-flint"].files or ()]
    for library in ("flint", "gmp", "mpfr"):
        assert any(
            re.search(rf"licenses/python-flint\.libs/{library}-[\d.]+/COPYING\.LESSER", file)
            for file in flint
        )
    numpy = packages["numpy"].read_text("licenses/LICENSE.txt") or ""
    assert "libquadmath" in numpy and "GCC-exception" in numpy
