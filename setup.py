"""Makes the README fit the package index, where links to files of the checkout lead nowhere.

Everything else about the package is in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
LINK = re.compile(r'(\]\(|href=")(?!https?://|#)([^)"#]+)')


def absolute(found: re.Match[str]) -> str:
    """A link of the checkout as a link to the site, for pages that run in a browser, or to the
    repository."""
    start, path = found.groups()
    if path.startswith("docs/pages/"):
        return f"{start}{URLS['Documentation']}/{path.removeprefix('docs/')}"
    kind = "raw" if path.endswith((".svg", ".png")) else "blob"
    return f"{start}{URLS['Repository']}/{kind}/main/{path}"


setup(
    long_description=LINK.sub(absolute, (ROOT / "README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
)
