"""Other users of a machine, who see the arguments of every process."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from raw_sockets import wait_for
from studio_program import Started, start


@pytest.fixture
def blocking(tmp_path: Path) -> Iterator[tuple[Started, Path]]:
    """A studio whose browser writes down its arguments and does not return."""
    told, browser = tmp_path / "told", tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho $$ "$@" > {told}.part\nmv {told}.part {told}\nwhile :; do sleep 1; done\n'
    )
    browser.chmod(0o700)
    studio = start(tmp_path / "data", browser)
    yield studio, told
    studio.stop()
    assert studio.process.stdout is not None
    studio.process.stdout.close()
    if told.exists():
        os.kill(int(told.read_text().split()[0]), signal.SIGKILL)


def arguments_of_all_processes() -> str:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


@pytest.mark.attack("the studio's one-time link in the list of processes")
def test_the_link_is_in_no_processs_arguments(blocking: tuple[Started, Path]) -> None:
    studio, told = blocking
    assert wait_for(told.exists)
    token = studio.link.partition("token=")[2]
    listed = arguments_of_all_processes()
    assert str(told.parent / "browser") in listed and token not in listed
    _, url = told.read_text().split()
    page = Path(re.sub("^file://", "", url))
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) & 0o077 == 0
    assert token in page.read_text()  # the twin: the browser of the same user gets there
    studio.stop()
    assert not page.exists()


@pytest.mark.attack("a browser that blocks the studio's start")
def test_a_browser_that_blocks_does_not_hang_the_studio(blocking: tuple[Started, Path]) -> None:
    studio, told = blocking
    assert wait_for(told.exists)
    page = Path(told.read_text().split()[1].removeprefix("file://"))
    assert page.exists()
    assert httpx2.get(studio.link, timeout=60).status_code == 303
    assert not page.exists()  # the link was used
