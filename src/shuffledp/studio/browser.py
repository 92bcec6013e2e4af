"""Opening the studio's link in a browser, so that nobody else on the machine can read it.

Every user of a machine can list the arguments of all processes. So the browser gets the name of a
file that only its owner can read, and the file leads on to the link.
"""

from __future__ import annotations

import html
import os
import tempfile
import threading
import webbrowser
from pathlib import Path

from shuffledp.studio.kept import data_folder

REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>shuffledp studio</title>
<p><a href="{link}">Open the studio</a></p>
</html>
"""


def redirect_file(link: str) -> Path:
    """A page that leads to the link, in a file that only this user can read."""
    handle, name = tempfile.mkstemp(
        prefix="studio-", suffix=".html", dir=data_folder()
    )  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(REDIRECT.format(link=html.escape(link)))
    return Path(name)


def open_browser(page: Path) -> None:
    """Opens a file in the user's browser and returns at once: some browsers block until they are
    closed."""
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
