"""A running studio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from studio_program import Started, start


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A studio for the tests of one file."""
    started = start(tmp_path_factory.mktemp("data"))
    yield started
    started.stop()


@pytest.fixture
def new_studio() -> Iterator[Callable[[Path], Started]]:
    """Starts a studio that keeps what it keeps in a folder; it ends with the test."""
    with ExitStack() as ending:

        def new(data: Path) -> Started:
            started = start(data)
            ending.callback(started.stop)
            return started

        yield new
