"""The site builds without a warning, and its links lead somewhere; a broken one is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scripts_modules import ROOT, script

import shuffledp
from shuffledp.cli.main import parser

links = script("document_links")


def build(checkout: Path, output: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(checkout / "scripts/document_pages.py"), "--output", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once."""
    folder = tmp_path_factory.mktemp("documents") / "site"
    found = build(ROOT, folder)
    assert found.returncode == 0 and not found.stderr, found.stdout + found.stderr
    return folder


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    assert len([*site.rglob("*.html")]) > 30
    assert not [*links.broken(site)]


def test_the_reference_holds_every_name_command_and_code(site: Path) -> None:
    python = (site / "reference/python.html").read_text("utf-8")
    named = links.Page(site / "reference/python.html").names
    assert {f"shuffledp.{name}" for name in shuffledp.__all__ if name[0] != "_"} <= named
    assert "The privacy loss allowed" in python
    commands = (site / "reference/commands.html").read_text("utf-8")
    programs = [command.prog for command in script("reference_pages").every_command(parser())]
    assert len(programs) > 30 and "shuffledp plan count" in programs
    assert not [name for name in programs if f"usage: {name} " not in commands]
    codes = (site / "reference/problems.html").read_text("utf-8")
    assert all(code in codes for code in ("task-closed", "token-unknown", "token-missing"))


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ('<a href="nowhere.html">', "leads to no file"),
        ('<a href="other.html#nowhere">', "leads to no such place on the page"),
        ('<a href="#nowhere">', "leads to no such place on the page"),
        ('<a href="https://no host/">', "is no address"),
        ('<a href="https:///path">', "is no address"),
        ('<img src="https://example.org/a.png">', "is loaded from the network"),
        ('<script src="//example.org/a.js"></script>', "is loaded from the network"),
    ],
)
def test_a_broken_link_is_found(tmp_path: Path, link: str, fault: str) -> None:
    (tmp_path / "other.html").write_text('<p id="here"><a href="index.html#top">')
    good = '<p id="top"><a href="other.html#here"><a href="https://example.org/x">'
    page = tmp_path / "index.html"
    page.write_text(good)
    assert not [*links.broken(tmp_path)]
    links.read.cache_clear()
    page.write_text(good + link)
    (found,) = links.broken(tmp_path)
    links.read.cache_clear()
    assert found.startswith("index.html: ") and found.endswith(fault)


def test_a_style_sheet_that_loads_from_the_network_is_found(tmp_path: Path) -> None:
    assert len([*links.broken(tmp_path)]) == 1  # a site without pages
    (tmp_path / "index.html").write_text("<p>")
    (tmp_path / "a.css").write_text("p { background: url(b.png) }")
    assert not [*links.broken(tmp_path)]
    (tmp_path / "a.css").write_text("@import 'https://example.org/font.css';")
    assert len([*links.broken(tmp_path)]) == 1
