"""A studio as people start it: `shuffledp studio` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Started:
    """A studio in a process of its own."""

    link: str
    process: subprocess.Popen[str]
    data: Path
    """The folder with what it keeps."""
    entered: bool = False
    """Whether the link was used."""

    @property
    def address(self) -> str:
        return self.link.split("/?")[0]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


def start(data: Path, browser: Path | None = None) -> Started:
    """Starts `shuffledp studio` on a free port; it keeps what it keeps in a folder, and opens the
    given program as the browser, or none."""
    quiet = [] if browser else ["--no-browser"]
    process = subprocess.Popen(
        [sys.executable, "-m", "shuffledp.cli.main", "studio", *quiet, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_DATA_HOME": str(data), "BROWSER": str(browser or "")},
    )
    assert process.stdout is not None
    return Started(json.loads(process.stdout.readline())["link"], process, data)
