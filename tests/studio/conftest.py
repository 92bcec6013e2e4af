"""A running studio, and a window of Chromium to use it in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsers import Browser, running_browser
from studio_program import Started, start


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A studio for the tests of one file."""
    started = start(tmp_path_factory.mktemp("data"))
    yield started
    started.stop()
    assert started.process.stdout is not None
    started.process.stdout.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A window of Chromium."""
    with running_browser() as window:
        yield window
