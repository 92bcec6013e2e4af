"""What pages say about routes and files is what the servers and the sources say."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROLES = ("shuffler", "analyzer", "issuer", "relay")


def test_the_page_of_routes_lists_every_route_of_every_server() -> None:
    page = (ROOT / "docs/http-api.md").read_text("utf-8")
    listed = [
        route
        for row in re.findall(r"^\| (`[A-Z].*)\|$", page, re.M)
        for requests, servers, *_ in [row.split(" | ")]
        for route in product(servers.split(", "), re.findall(r"`([^`]+)`", requests))
    ]
    served = []
    for role in ROLES:
        text = (ROOT / f"docs/schema/{role}.openapi.json").read_text("utf-8")
        for path, methods in json.loads(text)["paths"].items():
            served += [(role, f"{method.upper()} {path}") for method in methods]
    assert sorted(listed) == sorted(served)


def test_a_change_that_a_page_shows_fits_the_file() -> None:
    page = (ROOT / "docs/extending.md").read_text("utf-8")
    changes = re.findall(r"^```diff\n--- a/(\S+)\n\+\+\+ [^\n]*\n(.+?)^```$", page, re.M | re.S)
    assert changes
    for name, hunks in changes:
        source = (ROOT / name).read_text("utf-8")
        for hunk in re.split(r"^@@.*\n", hunks, flags=re.M)[1:]:
            before = [line[1:] for line in hunk.splitlines(keepends=True) if line[0] != "+"]
            assert "".join(before) in source


def test_every_file_that_a_page_names_exists() -> None:
    folders = "clients|deploy|docs|examples|notebooks|proofs|scripts|src|tests|vectors"
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    named = {
        (page.name, name)
        for page in pages
        for name in re.findall(rf"`((?:{folders})/[\w./-]*)", page.read_text("utf-8"))
    }
    assert len(named) > 80
    assert not [one for one in sorted(named) if not (ROOT / one[1]).exists()]


def test_every_picture_is_on_a_page() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    text = "".join(page.read_text("utf-8") for page in pages)
    pictures = sorted(one.name for one in (ROOT / "docs/figures").iterdir())
    assert len(pictures) > 15
    assert not [name for name in pictures if f"figures/{name}" not in text]
