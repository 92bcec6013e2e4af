"""The house: rooms in one direction, a public surface, a quick entrance, no foul lines."""

import os
import re
import subprocess
import sys
from pathlib import Path

import shuffledp

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src/shuffledp").rglob("*.py"))


def test_rooms_import_downward_only() -> None:
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


def test_no_statistical_generator_makes_noise() -> None:
    pattern = re.compile(r"np\.random|numpy\.random|import random\b|from random\b|default_rng")
    assert not [str(path) for path in SOURCES if pattern.search(path.read_text())]


def test_words_that_are_not_used_in_names() -> None:
    pattern = re.compile(r"^(utils?|helpers?|common|manager)(_|\.|$)")
    assert not [path.name for path in SOURCES if pattern.match(path.name)]


def test_files_fit_in_a_head() -> None:
    long = {path.name: n for path in SOURCES if (n := path.read_text().count("\n")) > 400}
    assert not long


def test_no_paths_or_hosts_of_a_workplace() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    names = listed.stdout.split() if listed.returncode == 0 else []
    foul = re.compile(
        "|".join(["index" + "-url", "/" + "simple/", re.escape(os.path.expanduser("~")) + "/"])
    )
    texts = [name for name in names if not name.endswith((".png", ".parquet"))]
    assert not [
        n for n in texts if (ROOT / n).exists() and foul.search((ROOT / n).read_text("utf-8"))
    ]
