"""Writes the requirement files with hashes: exact versions of what the container image and the
release workflow install.

    python -m pip install uv && python scripts/lock.py            # make lock

The versions are the newest that the index has; `--check` compares the names in the files with
pyproject.toml and needs no network. The files name no index.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RELEASE = ROOT / ".github" / "requirements.txt"
IMAGE = ROOT / "deploy" / "requirements.txt"
HELD = ("service", "postgres", "frames")  # frames reads and writes buckets
EXTRAS = {RELEASE: (*HELD, "dist"), IMAGE: HELD}
"""The release builds in an environment that also holds what the image does, so that both lists of
packages (scripts/sbom.py) are made from it."""
COMPILE = (
    *("-m", "uv", "pip", "compile", "pyproject.toml", "--quiet", "--universal"),
    *("--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"),
    "--upgrade",
)
NAME = re.compile(r"[A-Za-z0-9._-]+")


def write() -> None:
    """Writes both files; the image gets the versions of the release."""
    for path, extras in EXTRAS.items():
        chosen = [word for extra in extras for word in ("--extra", extra)]
        same = [] if path == RELEASE else ["--constraint", str(RELEASE)]
        done = subprocess.run(
            [sys.executable, *COMPILE, *chosen, *same],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr)
        command = "# Written by `make lock`: do not edit.\n"
        path.write_text(command + done.stdout, "utf-8")


def problems() -> list[str]:
    """What is wrong with the files, one sentence each."""
    found = []
    for path, extras in EXTRAS.items():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        locked = pinned(text)
        for direct in sorted(direct_names(extras) - locked.keys()):
            found.append(f"{name} lacks {direct}; run make lock.")
        if "://" in text or "--index" in text or "--find-links" in text:
            found.append(f"{name} names an index.")
        for one, (version, hashes) in locked.items():
            if not version or not hashes:
                found.append(f"{name} has no version or no hash for {one}.")
    release, image = (pinned(path.read_text("utf-8")) for path in (RELEASE, IMAGE))
    if any(release.get(name) != entry for name, entry in image.items()):
        found.append("The image and the release have different versions; run make lock.")
    return found


def pinned(text: str) -> dict[str, tuple[str, list[str]]]:
    """(version, hashes) of every package in a requirement file."""
    found = {}
    for entry in re.sub(r"\\\n", "", text).splitlines():
        if entry.startswith("#") or not entry.strip():
            continue
        version = re.search(r"==([^\s;]+)", entry)
        hashes = re.findall(r"--hash=(sha256:[0-9a-f]{64})", entry)
        found[plain(NAME.findall(entry)[0])] = (version[1] if version else "", hashes)
    return found


def direct_names(extras: tuple[str, ...]) -> set[str]:
    """The packages that pyproject.toml names for these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    waiting = [*project["dependencies"]]
    for extra in extras:
        waiting += project["optional-dependencies"][extra]
    found = set()
    while waiting:
        need = waiting.pop()
        inner = re.match(r"shuffledp\[(.*)\]", need)
        if inner:
            for extra in inner[1].split(","):
                waiting += project["optional-dependencies"][extra]
        else:
            found.add(plain(NAME.findall(need)[0]))
    return found


def plain(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub("[-_.]+", "-", name).lower()


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        write()
    wrong = problems()
    print("\n".join(wrong) or "The requirement files fit pyproject.toml.")
    sys.exit(1 if wrong else 0)
