"""Packages import in one direction, the public surface is small, importing is quick."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import shuffledp

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src/shuffledp").rglob("*.py"))


def test_packages_import_downward_only() -> None:
    found = subprocess.run(
        [
            str(Path(sys.executable).with_name("lint-imports")),
            "--config",
            str(ROOT / "pyproject.toml"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_public_surface() -> None:
    assert sorted(shuffledp.__all__) == shuffledp.__all__
    assert all(hasattr(shuffledp, name) for name in shuffledp.__all__)


def test_nothing_heavy_comes_in_with_the_package() -> None:
    code = (
        "import sys, shuffledp\n"
        "heavy = {'matplotlib', 'pyarrow', 'pandas', 'polars', 'narwhals', 'rich', 'scipy', "
        "'pyspark', 'starlette', 'opendp'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_the_package_works_where_python_drops_docstrings() -> None:
    code = (
        "import shuffledp\nfrom shuffledp.cli.main import parser\n"
        "print(parser() is not None, shuffledp.count.__name__)"
    )
    found = subprocess.run(
        [sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["True", "count"]


def test_no_statistical_generator_makes_noise() -> None:
    pattern = re.compile(r"np\.random|numpy\.random|import random\b|from random\b|default_rng")
    assert not [str(path) for path in SOURCES if pattern.search(path.read_text())]


def test_words_that_are_not_used_in_names() -> None:
    pattern = re.compile(r"^(utils?|helpers?|common|manager)(_|\.|$)")
    assert not [path.name for path in SOURCES if pattern.match(path.name)]


def test_nobody_asks_for_the_kind_of_a_protocol() -> None:
    """Protocols are used through what `Protocol` declares, cells through what `Cell` declares."""
    asked = re.compile(r"kind ==|isinstance\(.*(Count|Histogram|RealSum|IntegerSum)Protocol")
    assert not [str(path) for path in SOURCES if asked.search(path.read_text("utf-8"))]


def test_the_drawn_packages_are_the_real_ones() -> None:
    """docs/architecture.md draws the layers of the import contract, which are all folders."""
    drawn = re.search(
        r"<!-- packages: a test reads this block -->\n(.*?)\n\n",
        (ROOT / "docs/architecture.md").read_text("utf-8"),
        re.S,
    )
    assert drawn
    packages = [line.split()[0] for line in drawn.group(1).splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(
        c["layers"]
        for c in contracts["contracts"]
        if "downward" in c["name"] and "packages" in c["name"]
    )
    named = [re.findall(r"shuffledp\.(\w+)", layer)[0] for layer in layers]
    assert packages == named
    folders = {path.parent.name for path in (ROOT / "src/shuffledp").glob("*/__init__.py")}
    assert folders == set(packages) - {"errors", "spark"}


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    names = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert len(names) > 10
    missing = [
        n for n in names if not any((ROOT / base / n).exists() for base in ("", "src/shuffledp"))
    ]
    assert not missing
    known = {path.name for path in SOURCES}
    assert not [name for name in re.findall(r"`(\w+\.py)`", text) if name not in known]


@pytest.mark.parametrize("page", ["mathematics", "security"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    names = re.findall(r"`((?:\w+/)+test_\w+\.py)", (ROOT / f"docs/{page}.md").read_text("utf-8"))
    assert len(names) > 10
    assert not [n for n in names if not any((ROOT / base / n).exists() for base in ("", "tests"))]


def test_large_dataclasses_take_keywords_only() -> None:
    """A dataclass of more than three fields cannot be called with its fields in the wrong order."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            fields = [
                item
                for item in node.body
                if isinstance(item, ast.AnnAssign)
                and "ClassVar" not in ast.unparse(item.annotation)
            ]
            names = [ast.unparse(item.target) for item in fields]
            large = any(mark.startswith("dataclass") for mark in marks) and len(fields) > 3
            keywords = any("kw_only=True" in mark for mark in marks) or "_" in names
            if large and not keywords:
                found.append(f"{path.name}: {node.name}")
    assert not found


def test_no_paths_or_hosts_of_a_workplace() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    names = listed.stdout.split() if listed.returncode == 0 else []
    foul = re.compile(
        "|".join(
            [
                "index" + "-url",
                "/" + "simple/",
                re.escape(os.path.expanduser("~")) + "/",
            ]
        )
    )
    texts = [name for name in names if not name.endswith((".png", ".parquet"))]
    assert not [
        n for n in texts if (ROOT / n).exists() and foul.search((ROOT / n).read_text("utf-8"))
    ]
