"""Checks wheel and source archive in a folder: metadata that indexes show, licences, and no foreign
file.

    python scripts/check_dist.py dist
"""

from __future__ import annotations

import email
import sys
import tarfile
import zipfile
from pathlib import Path

URLS = ("Documentation", "Repository", "Issues", "Changelog")
LICENCES = ("LICENSE", "NOTICES.md")
PACKAGES = ("shuffledp/", "shuffledp_check/")


def problems(folder: Path) -> list[str]:
    """What is wrong with the packages in a folder, one sentence each."""
    wheels, archives = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(archives) != 1:
        return ["There must be one wheel and one source archive."]
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(wheel.read(metadata))
    info = metadata.rpartition("/")[0]
    found = [f"{name} is in the wheel." for name in names if not _belongs(name, info)]
    found += [
        f"The wheel lacks the licence file {name}."
        for name in LICENCES
        if f"{info}/licenses/{name}" not in names
    ]
    given = {text.partition(",")[0] for text in fields.get_all("Project-URL", [])}
    found += [f"The URL {name} is missing." for name in URLS if name not in given]
    if fields["Description-Content-Type"] != "text/markdown" or not fields.get_payload():
        found.append("The README is not the description.")
    with tarfile.open(archives[0]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    found += [f"The source archive lacks {name}." for name in LICENCES if name not in inside]
    return found


def _belongs(name: str, info: str) -> bool:
    return name.startswith((*PACKAGES, f"{info}/")) and "__pycache__" not in name


def main() -> int:
    """Says what is wrong; exit code 1 if anything is."""
    found = problems(Path(sys.argv[1]))
    print("\n".join(found) or "The packages hold what they should.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
