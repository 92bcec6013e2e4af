"""Checks every link of a built site without a network: files, anchors, and the form of addresses.

    python scripts/document_links.py [FOLDER]

A page may lead elsewhere, but must not load anything from elsewhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+|localhost|127\.0\.0\.1", re.I)
LOADED = re.compile(r"(?:url\(|@import)\s*['\"]?(https?:)?//")
"""Something that a style sheet takes from the network."""


@dataclass
class Page(HTMLParser):
    """The links of a page, each with the element that has it, and what can be linked to."""

    path: Path
    links: list[tuple[str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.names.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append((tag, value))


@cache
def read(path: Path) -> Page:
    """A page, read once."""
    return Page(path)


def wrong(page: Page, tag: str, link: str) -> str | None:
    """What is wrong with a link of a page; None if it leads somewhere."""
    parts = urlsplit(link)
    if parts.scheme in ("data", "mailto", "urn"):
        return None
    if parts.scheme or parts.netloc:
        if tag != "a":
            return "is loaded from the network"
        good = parts.scheme in ("http", "https") and HOST.fullmatch(parts.hostname or "")
        return None if good else "is not an address"
    target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    if not target.is_file():
        return "leads to no file"
    if parts.fragment and target.suffix == ".html":
        known = unquote(parts.fragment) in read(target).names
        return None if known else "leads to no such place on the page"
    return None


def broken(site: Path) -> Iterator[str]:
    """One line for every link that leads nowhere, and everything that comes from the network."""
    site = site.resolve()
    pages = sorted(set(site.rglob("*.html")) - set(site.glob("_downloads/**/*")))
    if not pages:
        yield f"{site} has no pages: run make docs"
    for path in pages:
        page = read(path)
        for tag, link in page.links:
            fault = wrong(page, tag, link)
            if fault is not None:
                yield f"{path.relative_to(site)}: {link} {fault}"
    for path in sorted(site.rglob("*.css")):
        if LOADED.search(path.read_text("utf-8")):
            yield f"{path.relative_to(site)} loads something from the network"


def main() -> int:
    """Prints what is broken; gives 1 if there is something."""
    found = [*broken(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site")]
    print("\n".join(found) or "every link leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
