"""Writes two CycloneDX lists from one inventory: for the wheel, and for the container image.

    python scripts/sbom.py dist

The inventory is what the extras of the image (service, postgres and, for buckets, frames) lead to
in this environment; `make dist` runs this in an environment made from the requirement file with
hashes. In the list of the wheel, what only an extra needs is `optional`. The list of the image also
names its base image; its publisher lists the packages of that image's own system.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

EXTRAS = ("service", "postgres", "frames")
BASE = re.compile(r"^PYTHON_IMAGE=([^:\s]+):(\S+)$", re.MULTILINE)
DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
Document = dict[str, Any]


@dataclass
class Inventory:
    """Installed packages that shuffledp leads to, by name, and what each one needs."""

    packages: dict[str, Distribution] = field(default_factory=dict)
    needs: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, extras: Iterable[str] = ()) -> str:
        """Adds a package with everything it needs here; returns its plain name, or "" if it is not
        installed because only another system needs it."""
        key = re.sub("[-_.]+", "-", name).lower()
        try:
            package = self.packages.setdefault(key, distribution(name))
        except PackageNotFoundError:
            return ""
        known = self.needs.get(key)
        below = self.needs.setdefault(key, set())
        for need in map(Requirement, package.requires or ()):
            always = need.marker is None or need.marker.evaluate({"extra": ""})
            if (always and known is None) or any(
                need.marker is not None and not always and need.marker.evaluate({"extra": extra})
                for extra in extras
            ):
                below |= {self.add(need.name, need.extras)} - {"", key}
        return key


def inventory(extras: Iterable[str] = EXTRAS) -> Inventory:
    """What is installed for shuffledp with these extras."""
    found = Inventory()
    found.add("shuffledp", extras)
    return found


def documents(wheel: Path | None = None) -> dict[str, Document]:
    """Both lists as CycloneDX 1.6, by file name."""
    whole, required = inventory(), inventory(()).packages
    parts = {name: _component(name, one) for name, one in sorted(whole.packages.items())}
    own = parts.pop("shuffledp")
    if wheel is not None:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        own["hashes"] = [{"alg": "SHA-256", "content": digest}]
    scoped = [
        part | {"scope": "required" if name in required else "optional"}
        for name, part in parts.items()
    ]
    links = [
        {"ref": _purl(name, whole), "dependsOn": sorted(_purl(one, whole) for one in below)}
        for name, below in sorted(whole.needs.items())
    ]
    image = {
        "type": "container",
        "bom-ref": f"shuffledp-image@{own['version']}",
        "name": "shuffledp",
        "version": own["version"],
    }
    base = _base_image()
    contained = [own["bom-ref"], base["bom-ref"]]
    return {
        "shuffledp.cdx.json": _document(own, scoped, links),
        "shuffledp-image.cdx.json": _document(
            image,
            [base, own, *parts.values()],
            [{"ref": image["bom-ref"], "dependsOn": contained}, *links],
        ),
    }


def _document(root: Document, components: list[Document], links: list[Document]) -> Document:
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": components,
        "dependencies": links,
    }


def _component(name: str, package: Distribution) -> Document:
    purl = f"pkg:pypi/{name}@{package.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": package.version,
        "purl": purl,
        "licenses": [{"license": {"name": licence(package)}}],
    }


def _purl(name: str, found: Inventory) -> str:
    return f"pkg:pypi/{name}@{found.packages[name].version}"


def _base_image() -> Document:
    """The image that deploy/Containerfile starts from, with its digest once that was looked up."""
    pinned, tags = DEPLOY / "images.env", DEPLOY / "images.txt"
    found = BASE.search((pinned if pinned.exists() else tags).read_text("utf-8"))
    if found is None:
        raise ValueError("deploy/images.txt does not name PYTHON_IMAGE.")
    name, version = found.groups()
    return {"type": "container", "bom-ref": f"{name}:{version}", "name": name, "version": version}


def licence(package: Distribution) -> str:
    """The licence that a package's metadata name: an SPDX expression, or else in words."""
    fields = package.metadata
    classified = [
        text.rpartition(" :: ")[2]
        for text in fields.get_all("Classifier", [])
        if text.startswith("License :: OSI Approved :: ")
    ]
    short = (fields["License"] or "").split("\n")[0]
    return fields["License-Expression"] or " OR ".join(classified) or short or "see the package"


def main(folder: Path) -> None:
    """Writes both lists into a folder; the wheel's has the hash of the wheel there."""
    for name, document in documents(next(folder.glob("*.whl"), None)).items():
        (folder / name).write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
