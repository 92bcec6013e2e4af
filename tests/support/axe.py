"""axe-core: what it finds wrong with a page for people who do not see it or use no mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from browsers import Browser
from service_needs import missing

NPM = Path(__file__).resolve().parents[1] / "browser" / "npm"
AXE = NPM / "node_modules" / "axe-core" / "axe.min.js"


COLOUR_RULES = ("color-contrast", "link-in-text-block")
"""The rules of axe that depend on colours: all that can differ between light and dark pages."""


def accessible(browser: Browser, *rules: str) -> list[Any]:
    """Everything that axe finds wrong with the page that is open, by these rules or by all."""
    if not AXE.is_file():
        missing("axe-core", "run `npm install --no-save` in tests/browser/npm, or `make test`")
    found = browser.work(
        AXE.read_text("utf-8") + "; const options = args[0].length ? { runOnly: args[0] } : {};"
        "const found = await axe.run(document, options);"
        "return found.violations.map(({ id, nodes }) => [id, ...nodes.map((one) => one.html)]);",
        rules,
    )
    return list(found) if isinstance(found, list) else [found]
