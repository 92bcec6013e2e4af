"""Every test belongs to one tier, and the table of tiers names only what exists."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tiers import PLACES, TIERS, tier_of

ROOT = Path(__file__).parents[2]


def test_every_place_exists() -> None:
    for place, tier in PLACES.items():
        path, _, test = place.partition("::")
        assert tier in TIERS and (ROOT / path).exists(), place
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(), place


def test_every_folder_of_tests_has_a_tier() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(files) > 100
    assert not [file for file in files if tier_of(file) is None]


def test_the_longest_place_decides() -> None:
    assert tier_of("tests/season/test_checks.py::test_x") == "service"
    assert tier_of("tests/season/test_season.py::test_x") == "system"
    assert tier_of("tests/cells/test_any.py::test_x[a-b]") == "unit"
    assert tier_of("tests/cellsandmore/test_any.py::test_x") is None
    for store, tier in (("postgres", "service"), ("sqlite", "system")):
        assert tier_of(f"tests/service/test_any.py::test_x[{store}]", {"stores": store}) == tier


def test_the_makefile_runs_the_tiers_it_says() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert [line.partition(":")[0] for line in options["markers"]] == [*TIERS, "attack(name)"]
    assert options["markers"][:3] == [f"{name}: {text}" for name, text in TIERS.items()]
    makefile = (ROOT / "Makefile").read_text()
    assert '-m "unit or service"' in makefile and "-m system" in makefile
