"""Checks what `make dist` built, as the indexes would: metadata that they show, licences, no
foreign file, the npm package, and both lists of packages.

    python scripts/check_dist.py dist
"""

from __future__ import annotations

import email
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

RELATIVE = re.compile(r'(\]\(|href="|src=")(?!https?://|#)')
URLS = ("Documentation", "Repository", "Issues", "Changelog")
LICENCES = ("LICENSE", "NOTICES.md")
PACKAGES = ("shuffledp/", "shuffledp_check/")
SOURCE_FILES = (*LICENCES, "deploy/requirements.txt", "README.md", "pyproject.toml")
SBOMS = ("shuffledp.cdx.json", "shuffledp-image.cdx.json")
NPM_FIELDS = ("description", "license", "repository", "homepage", "bugs", "keywords", "engines")
NPM_FILES = ("package/package.json", "package/README.md", "package/LICENSE")


def problems(folder: Path) -> list[str]:
    """What is wrong with the packages in a folder, one sentence each."""
    wheels, archives = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(archives) != 1:
        return ["There must be one wheel and one source archive."]
    return [
        *_wheel_problems(wheels[0]),
        *_archive_problems(archives[0]),
        *_npm_problems(folder),
        *_sbom_problems(folder),
    ]


def _wheel_problems(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(wheel.read(metadata))
    info = metadata.rpartition("/")[0]
    for name in names:
        if not name.startswith((*PACKAGES, f"{info}/")) or "__pycache__" in name:
            yield f"{name} is in the wheel."
    for name in LICENCES:
        if f"{info}/licenses/{name}" not in names:
            yield f"The wheel lacks the licence file {name}."
    yield from _metadata_problems(fields)


def _metadata_problems(fields: Message) -> Iterator[str]:
    given = {text.partition(",")[0] for text in fields.get_all("Project-URL", [])}
    for name in URLS:
        if name not in given:
            yield f"The URL {name} is missing."
    description = fields.get_payload()
    if fields["Description-Content-Type"] != "text/markdown" or not description:
        yield "The README is not the description."
    elif isinstance(description, str) and RELATIVE.search(description):
        yield "The README has links that only work in a checkout."


def _archive_problems(path: Path) -> Iterator[str]:
    with tarfile.open(path) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for name in SOURCE_FILES:
        if name not in inside:
            yield f"The source archive lacks {name}."


def _npm_problems(folder: Path) -> Iterator[str]:
    packed = sorted(folder.glob("*.tgz"))
    if len(packed) != 1:
        yield "There must be one npm package."
        return
    with tarfile.open(packed[0]) as archive:
        names = archive.getnames()
        for name in NPM_FILES:
            if name not in names:
                yield f"The npm package lacks {name.partition('/')[2]}."
        held = archive.extractfile("package/package.json") if NPM_FILES[0] in names else None
        given = json.loads(held.read()) if held else {}
    for name in NPM_FIELDS:
        if not given.get(name):
            yield f"The npm package has no {name}."
    for name in names:
        if "node_modules" in name or name.endswith(".tsbuildinfo"):
            yield f"{name} is in the npm package."


def _sbom_problems(folder: Path) -> Iterator[str]:
    for name in SBOMS:
        path = folder / name
        if not path.exists():
            yield f"{name} is missing."
        elif sbom_fault(path.read_text("utf-8")):
            yield f"{name} does not follow the schema of CycloneDX 1.6."


def sbom_fault(text: str) -> object:
    """What the schema of CycloneDX 1.6 says against a list; None if nothing."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)


def main() -> int:
    """Says what is wrong; exit code 1 if anything is."""
    found = problems(Path(sys.argv[1]))
    print("\n".join(found) or "The packages hold what they should.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
