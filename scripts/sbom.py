"""Writes a CycloneDX list of what an installation with the extras service and postgres holds.

    python scripts/sbom.py dist/shuffledp.cdx.json

The packages are those of this environment that the extras lead to, so the list names the versions
that the tests ran with.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

EXTRAS = ("service", "postgres")
NAME = re.compile(r"[A-Za-z0-9._-]+")
EXTRA = re.compile(r"""extra == ['"]([A-Za-z0-9._-]+)['"]""")


def installed(name: str, extras: tuple[str, ...], found: dict[str, Distribution]) -> None:
    """Adds a package and everything it needs here."""
    try:
        package = distribution(name)
    except PackageNotFoundError:  # needed on another system
        return
    key = re.sub("[-_.]+", "-", name).lower()
    first = key not in found
    found[key] = package
    for text in package.requires or []:
        needed, _, marker = text.partition(";")
        wanted = EXTRA.search(marker)
        (below,) = NAME.findall(needed)[:1]
        inner = tuple(re.findall(r"[a-z]+", (re.search(r"\[(.*?)\]", needed) or [""])[0]))
        if (wanted[1] in extras) if wanted else first:
            installed(below, inner, found)


def document() -> dict[str, Any]:
    """The list as CycloneDX 1.6."""
    found: dict[str, Distribution] = {}
    installed("shuffledp", EXTRAS, found)
    components = [_component(name, package) for name, package in sorted(found.items())]
    root = next(one for one in components if one["name"] == "shuffledp")
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**root, "type": "application"}},
        "components": [one for one in components if one is not root],
    }


def _component(name: str, package: Distribution) -> dict[str, Any]:
    fields = package.metadata
    given = [*fields.get_all("License-Expression", []), *fields.get_all("License", []), ""]
    licence = given[0].split("\n")[0]
    classified = [
        text.rpartition(" :: ")[2]
        for text in fields.get_all("Classifier", [])
        if text.startswith("License :: ")
    ]
    named = licence if 0 < len(licence) < 80 else ", ".join(classified) or "see the package"
    purl = f"pkg:pypi/{name}@{package.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": package.version,
        "purl": purl,
        "licenses": [{"license": {"name": named}}],
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(document(), indent=1) + "\n", "utf-8")
