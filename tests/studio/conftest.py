"""A running studio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from studio_program import Started, start


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A studio for the tests of one file."""
    started = start(tmp_path_factory.mktemp("data"))
    yield started
    started.stop()
