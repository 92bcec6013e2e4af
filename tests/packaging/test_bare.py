"""Without optional packages everything can be imported or says in one sentence what is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shuffledp.extras import PACKAGES

ROOT = Path(__file__).parents[2]
OPTIONAL = sorted({name for names in PACKAGES.values() for name in names} | {"pandas", "polars"})
WITHOUT = "import sys\nfor name in sys.argv[1].split(','): sys.modules[name] = None\n"
"""Hides the packages that are named in the first argument."""
EVERYTHING = f"""{WITHOUT}
import importlib, json, pkgutil, shuffledp
from shuffledp.errors import MissingExtra
said = {{}}
def look(package):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except MissingExtra as error:
            said[found.name] = str(error)
            continue
        if found.ispkg:
            look(module)
look(shuffledp)
print(json.dumps(said))
"""
COMMAND = f"""{WITHOUT}
from shuffledp.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def python(code: str, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_every_module_comes_in_or_names_its_extra() -> None:
    done = python(EVERYTHING, ",".join(OPTIONAL))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert "shuffledp.service" in said and "shuffledp.cli.send" not in said
    for sentence in said.values():
        assert re.search(r'pip install "shuffledp\[\w+\]"$', sentence)


def test_with_all_packages_every_module_comes_in() -> None:
    """The twin: nothing is missing here."""
    done = python(EVERYTHING, "no_such_package")
    assert done.returncode == 0 and json.loads(done.stdout) == {}, done.stderr


COMMANDS = [
    ("client", "send", "--task", "task.json"),
    ("client", "device", "show"),
    ("client", "result", "--task", "task.json", "--analyzer", "http://127.0.0.1:1"),
    ("client", "task", "register", "t.json", "--analyzer", "http://a", "--signing-key", "k.json"),
    ("service", "demo"),
    ("service", "shuffler", "serve"),
    ("service", "config", "check", "analyzer"),
    ("service", "backup", "--store", "sqlite:a.db", "--output", "b.db"),
    ("spark", "count", "x.csv", "--epsilon", "1", "--engine", "spark"),
    ("frames", "count", "x.csv", "--epsilon", "1"),
    ("plot", "simulate", "--users", "9", "--epsilon", "1", "--plot", "x.png"),
    ("plot", "compare", "count", "--users", "9", "--epsilon", "1", "--plot", "x.png"),
    ("studio", "studio"),
]


@pytest.mark.parametrize(("extra", "words"), [(one[0], one[1:]) for one in COMMANDS])
def test_a_command_says_what_it_needs_before_it_acts(
    extra: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    done = python(COMMAND, ",".join(OPTIONAL), *words, cwd=tmp_path)
    assert done.returncode == 2 and not done.stdout
    assert f'"shuffledp[{extra}]"' in done.stderr and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_extras_bring_what_they_are_said_to_bring() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    def brought(extra: str) -> set[str]:
        found: set[str] = set()
        for line in extras[extra]:
            nested = re.match(r"shuffledp\[(.*)\]", line)
            if nested:
                found |= {one for name in nested[1].split(",") for one in brought(name)}
            else:
                found.add(re.split(r"[^\w-]", line)[0].replace("-", "_"))
        return found

    for extra, packages in PACKAGES.items():
        assert set(packages) <= brought(extra), extra
    assert set(PACKAGES) == {*re.findall(r"\w+", extras["all"][0])} - {"shuffledp"}
