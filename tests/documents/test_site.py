"""The site builds without a warning, and its links lead somewhere; a broken one is found."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from axe import AXE
from browsers import MOST_SECONDS, Browser, running_browser
from client_site import Quiet
from scripts_modules import ROOT, script
from service_needs import missing

import shuffledp
from shuffledp.cli.main import parser

links = script("document_links")
WINDOWS = 2
"""Browsers that look at the pages of the site at the same time."""


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
    names = [name for name in shuffledp.__all__ if name[0] != "_"]
    listed = (site / "reference/python.html").read_text("utf-8")
    for name in names:
        page = links.Page(site / f"reference/python/{name}.html")
        assert any(f"shuffledp.{name}" in one for one in page.names), name
        assert f"python/{name}.html" in listed and "Source:" in page.path.read_text("utf-8")
    assert "The privacy loss allowed" in (site / "reference/python/count.html").read_text("utf-8")
    commands = (site / "reference/commands.html").read_text("utf-8")
    programs = [command.prog for command in script("reference_pages").every_command(parser())]
    assert len(programs) > 30 and "shuffledp plan count" in programs
    assert not [name for name in programs if f"usage: {name} " not in commands]
    codes = (site / "reference/problems.html").read_text("utf-8")
    assert all(code in codes for code in ("task-closed", "token-unknown", "token-missing"))


def test_formulas_are_typeset_without_a_script(site: Path) -> None:
    page = (site / "mathematics.html").read_text("utf-8")
    assert page.count("<math") > 40 and "$$" not in page
    assert not re.search("<script[^>]*mathjax", page, re.IGNORECASE)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, while it is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_no_page_has_an_accessibility_fault_and_search_finds_what_people_type(site: Path) -> None:
    pytest.importorskip("httpx2")
    if not AXE.exists():
        missing("axe-core", "run `npm install --no-save` in tests/browser/npm, or `make test`")
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    pages = [page for page in pages if not page.startswith(("_modules/", "_downloads/"))]
    with served(site) as address, contextlib.ExitStack() as windows:
        browsers = [windows.enter_context(running_browser()) for _ in range(WINDOWS)]
        for browser in browsers:
            load_axe_on_every_page(browser)
        browsers[0].open(f"{address}/index.html")
        browsers[0].run("document.querySelector('article img').removeAttribute('alt')")
        assert "image-alt" in faults(browsers[0])  # the twin: a spoilt page is found out
        waiting = iter(pages)

        def check(browser: Browser) -> dict[str, list[str]]:
            found = {}
            for page in waiting:
                browser.open(f"{address}/{page}")
                found[page] = faults(browser)
            return found

        with ThreadPoolExecutor(WINDOWS) as threads:
            found = dict(one for part in threads.map(check, browsers) for one in part.items())
        assert sorted(found) == pages
        assert not {page: names for page, names in found.items() if names}
        for word in ("excel", "GDPR", "React", "install"):
            browsers[0].open(f"{address}/search.html?q={word}")
            browsers[0].wait("document.querySelectorAll('#search-results li').length > 0")


def load_axe_on_every_page(browser: Browser) -> None:
    """Has Chromium run axe's file in every document before the page's own scripts."""
    browser.call("timeouts", script=MOST_SECONDS * 1000)
    source = {"source": AXE.read_text("utf-8")}
    command = {"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": source}
    browser.call("goog/cdp/execute", **command)


def faults(browser: Browser) -> list[str]:
    """The rules of axe that the open page breaks. Only violations are worked out in detail."""
    options = "{ resultTypes: ['violations'], selectors: false }"
    found = browser.work(f"return (await axe.run({options})).violations.map((one) => one.id);")
    assert isinstance(found, list), found
    return found


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ('<a href="nowhere.html">', "leads to no file"),
        ('<a href="other.html#nowhere">', "leads to no such place on the page"),
        ('<a href="#nowhere">', "leads to no such place on the page"),
        ('<a href="https://no host/">', "is not an address"),
        ('<a href="https:///path">', "is not an address"),
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
