"""The packages: what they hold, and that a wheel installed alone does what README's first page
says, from an empty folder."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from fresh_environment import ROOT, built, environment, run


def section(path: str, title: str) -> str:
    """A section of a page, up to the next one."""
    return (ROOT / path).read_text("utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


FIRST_PAGE = section("README.md", "One example") + section("docs/install.md", "Commands to try")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("packages"))


def test_what_the_packages_hold(packages: tuple[Path, Path]) -> None:
    wheel, archive = packages
    inside = set(zipfile.ZipFile(wheel).namelist())
    needed = {
        "shuffledp/py.typed",
        "shuffledp/samples/commute.csv",
        "shuffledp/service/pages/survey.html",
        "shuffledp/studio/page/index.html",
        "shuffledp_check/__main__.py",
    }
    assert needed <= inside
    assert any(name.endswith("licenses/LICENSE") for name in inside)
    assert {name.split("/")[0] for name in inside if ".dist-info" not in name} == {
        "shuffledp",
        "shuffledp_check",
    }
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    parts = ("tests/cli/test_main.py", "docs/service.md", "vectors/certificates.json", "LICENSE")
    assert set(parts) <= names
    checked = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(archive)]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_first_page_of_the_readme_works_in_an_empty_folder(
    packages: tuple[Path, Path], tmp_path: Path
) -> None:
    programs = environment(tmp_path / "env", packages[0], ["frames", "plot"])
    folder = tmp_path / "empty"
    folder.mkdir()
    where = run(programs, ["python", "-c", "import shuffledp; print(shuffledp.__file__)"], folder)
    assert str(tmp_path / "env") in where.stdout, where.stderr
    code = "\n".join(re.findall(r"```python\n(.*?)```", FIRST_PAGE, re.S))
    assert "shuffledp.quantiles" in code
    done = run(programs, ["python", "-W", "error", "-c", code], folder)
    assert done.returncode == 0 and (folder / "q.png").exists(), done.stderr
    console = re.findall(r"```console\n(.*?)```", FIRST_PAGE, re.S)
    lines = [line[2:] for block in console for line in block.splitlines() if line.startswith("$ ")]
    assert len(lines) > 8
    for line in lines:
        done = run(programs, ["sh", "-c", line], folder)
        assert done.returncode == 0 and done.stdout, f"{line}: {done.stderr}"
    assert {"plan.json", "count.png", "frontier.png", "budget.json", "record.html"} <= set(
        path.name for path in folder.iterdir()
    )


def test_a_bare_install_names_what_is_missing(packages: tuple[Path, Path], tmp_path: Path) -> None:
    programs = environment(tmp_path / "env", packages[0])
    for words, extra in (
        (["demo"], "service"),
        (["shuffler", "serve"], "service"),
        (["send", "--task", "task.json"], "client"),
        (["studio"], "studio"),
        (["count", "sample:commute", "--column", "bikes", "--epsilon", "1"], "frames"),
        (["simulate", "--users", "9", "--epsilon", "1", "--plot", "x.png"], "plot"),
    ):
        done = run(programs, ["shuffledp", *words], tmp_path)
        assert done.returncode == 2 and not done.stdout
        assert f'"shuffledp[{extra}]"' in done.stderr and done.stderr.count("\n") == 1
    plan = ["plan", "count", "--users", "1000", "--epsilon", "1", "--output", "plan.json"]
    assert run(programs, ["shuffledp", *plan], tmp_path).returncode == 0
    checked = run(programs, ["python", "-m", "shuffledp_check", "plan.json"], tmp_path)
    assert checked.stdout == "plan.json: certified for epsilon = 1\n"
