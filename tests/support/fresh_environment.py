"""Virtual environments that hold a wheel and what it asks for, and nothing else, without a network.

The packages that the wheel depends on are linked from the environment in which the tests run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    *("src", "docs", "tests", "vectors", "examples", "scripts", "deploy"),
    *("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "Makefile", "CHANGELOG.md"),
    *("CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "NOTICES.md", "setup.py"),
)


def built(folder: Path) -> tuple[Path, Path]:
    """(wheel, source archive), built from a copy of the sources, the wheel from the archive."""
    copy, target = folder / "copy", folder / "dist"
    left = shutil.ignore_patterns("__pycache__", "*.egg-info", "node_modules")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=left)
        else:
            shutil.copy(source, copy / name)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,), (archive,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, archive


def environment(folder: Path, wheel: Path, extras: Iterable[str] = ()) -> Path:
    """The folder of programs of a fresh environment with this wheel and its dependencies."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    programs = folder / "bin"
    site = Path(
        _output(programs / "python", "import sysconfig; print(sysconfig.get_path('purelib'))")
    )
    shutil.unpack_archive(wheel, site, "zip")
    (info,) = site.glob("*.dist-info")
    (found,) = metadata.distributions(path=[str(site)])
    for name in closure(found, set(extras)):
        for top in tops(metadata.distribution(name)):
            if not (site / top.name).exists():
                (site / top.name).symlink_to(top)
    entry = re.search(r"shuffledp = ([\w.]+):main", (info / "entry_points.txt").read_text())
    assert entry
    script = programs / "shuffledp"
    script.write_text(
        f"#!{programs / 'python'}\nimport sys\nfrom {entry[1]} import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    return programs


def closure(of: metadata.Distribution, extras: set[str]) -> set[str]:
    """The names of all distributions that one needs with these extras."""
    found: set[str] = set()
    waiting = [(of, extras)]
    while waiting:
        one, chosen = waiting.pop()
        for line in one.requires or ():
            need = Requirement(line)
            fits = need.marker is None or any(
                need.marker.evaluate({"extra": extra}) for extra in (chosen or {""})
            )
            if not fits:
                continue
            if need.name == "shuffledp":
                waiting.append((of, set(need.extras)))
            elif need.name not in found:
                found.add(need.name)
                waiting.append((metadata.distribution(need.name), set(need.extras)))
    return found


def tops(of: metadata.Distribution) -> set[Path]:
    """The folders and files of a distribution in its site."""
    site = Path(str(of.locate_file(""))).resolve()
    names = {Path(str(file)).parts[0] for file in of.files or ()}
    return {site / name for name in names if name not in ("..", "__pycache__")}


def run(
    programs: Path, words: list[str], folder: Path, **given: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program of an environment in a folder, without anything of this one."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return subprocess.run(
        words,
        cwd=folder,
        env={**kept, "PATH": f"{programs}:/usr/bin:/bin", "PYTHONUTF8": "1", **given},
        capture_output=True,
        text=True,
        check=False,
    )


def _output(python: Path, code: str) -> str:
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
