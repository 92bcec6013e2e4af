"""Builds the documents as a site, in build/site: `make docs`. Warnings are errors.

    python scripts/document_pages.py [--output FOLDER]

The pages in docs/ are read in a checkout, in an editor and on the site. So their links are those of
the checkout, also to files outside docs/. Here everything is brought together in one folder, the
files outside docs/ that a page links to as project/…, and links are turned to where their targets
are; then Sphinx makes the site. Nothing is taken from the network, neither now nor by a page.
"""

from __future__ import annotations

import argparse
import json
import posixpath
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from reference_pages import PAGES
from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[1]
PROJECT_PAGES = ("README.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
"""A link to a file or folder: what is before, its path, then an anchor and the end."""
STATIC_LINK = re.compile(r"\[([^\]]*)\]\((?=[^)\s]*docs/pages/)([^)\s]+)\)")
"""A link to a static page, which is no document for Sphinx."""
HREF = re.compile(r'(<a href=")([^":#]+)(")')
CODE = re.compile(r"^```.*?^```$|^    .*?$|`[^`\n]*`", re.M | re.S)


def place(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path == "docs/decisions":
        return "decisions/index.md"
    if path.startswith("docs/pages/"):
        return path.removeprefix("docs/pages/")  # html_extra_path in docs/conf.py
    inside = path.startswith(("docs/", "notebooks/"))
    return path.removeprefix("docs/") if inside else f"project/{path}"


def target(path: str, link: str) -> str:
    """The file of the repository that a link in another one leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def targets(path: str, text: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    for _, link, _ in LINK.findall(CODE.sub("", text)):
        yield target(path, link)


def turned(path: str, text: str) -> str:
    """A page's text with links to where their targets are on the site. What leads to nothing in
    the repository stays as it is; Sphinx knows it (a page made from code) or warns."""

    def turn(link: re.Match[str]) -> str:
        before, to, end = link.groups()
        if not (ROOT / target(path, to)).exists():
            return link[0]
        here = posixpath.dirname(place(path)) or "."
        return before + posixpath.relpath(place(target(path, to)), here) + end

    def turn_all(part: str) -> str:
        return LINK.sub(turn, HREF.sub(turn, STATIC_LINK.sub(r'<a href="\2">\1</a>', part)))

    kept = [*CODE.findall(text), ""]
    parts = [turn_all(part) for part in CODE.split(text)]
    return "".join(a + b for a, b in zip(parts, kept, strict=True))


def put(path: str, text: str, folder: Path) -> Iterator[str]:
    """Writes a page or a notebook to its place on the site; yields the files that it links to."""
    page = folder / place(path)
    page.parent.mkdir(parents=True, exist_ok=True)
    if not path.endswith(".ipynb"):
        page.write_text(turned(path, text), "utf-8")
        yield from targets(path, text)
        return
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = "".join(cell["source"])
            cell["source"] = turned(path, source)
            yield from targets(path, source)
        for output in cell.get("outputs", ()):  # pandas leaves the header of an index empty
            shown = output.get("data", {})
            if "text/html" in shown:
                table = "".join(shown["text/html"])
                shown["text/html"] = re.sub("<th([^>]*)></th>", r"<td\1></td>", table)
    page.write_text(json.dumps(notebook), "utf-8")


def gather(folder: Path) -> None:
    """Brings all pages, notebooks and pictures together in a folder, as Sphinx reads them."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    waiting: set[str] = set(PROJECT_PAGES)
    for name, write in PAGES.items():
        waiting.update(put(f"docs/{name}", write(), folder))
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]:
        waiting.update(put(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"), folder))
    _add_project(waiting, folder)


def _add_project(waiting: Iterable[str], folder: Path) -> None:
    """Adds files outside docs/ that are linked to, and what those among them that are pages link
    to."""
    todo, done = [*waiting], set[str]()
    while todo:
        path = todo.pop()
        if path in done or not place(path).startswith("project/") or not (ROOT / path).is_file():
            continue
        done.add(path)
        if path.endswith(".md"):
            todo += put(path, (ROOT / path).read_text("utf-8"), folder)
        else:
            copy = folder / place(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, copy)


ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',
    '<div id="search-results">': '<h1>Search</h1><div id="search-results">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}
"""What the theme leaves out for people who use a keyboard or a screen reader."""


def make_accessible(output: Path) -> None:
    """Completes the theme's markup on every page."""
    for page in output.rglob("*.html"):
        text = page.read_text("utf-8")
        for theirs, ours in ACCESSIBLE.items():
            text = text.replace(theirs, ours)
        page.write_text(text, "utf-8")


def build(output: Path) -> int:
    """Makes the site; returns Sphinx's exit code, which is not 0 if there was a warning."""
    shutil.rmtree(output, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        pages, cache = Path(name, "documents"), Path(name, "cache")
        gather(pages)
        words = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(cache)]
        code = build_main([*words, str(pages), str(output)])
    make_accessible(output)
    return code


def main() -> int:
    """Reads the arguments and makes the site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    return build(parser.parse_args().output)


if __name__ == "__main__":
    sys.exit(main())
