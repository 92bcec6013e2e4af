"""Stores to run the suite on: SQLite always, PostgreSQL where a server is installed.

Without PostgreSQL or Chromium their tests are left out, loudly; with SHUFFLEDP_ALL_TESTS=1, as in
CI, a missing one is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import postgres_server as postgres
import pytest
from service_needs import missing


@pytest.fixture(scope="session")
def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs."""
    place = postgres.programs()
    if place is None:
        missing("PostgreSQL", postgres.HOW)
    assert place is not None
    return place


@pytest.fixture(scope="session")
def postgres_database(postgres_programs: Path) -> Iterator[Callable[[], str]]:
    """Makes fresh databases on one server, and gives their URLs."""
    with postgres.Server(postgres_programs) as server:
        yield server.new_database


@pytest.fixture
def postgres_server(postgres_programs: Path) -> Iterator[postgres.Server]:
    """A server that this test alone uses."""
    with postgres.Server(postgres_programs) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A fresh store for each role."""
    if request.param == "sqlite":
        return {role: f"sqlite:{tmp_path}/{role}.db" for role in ("shuffler", "analyzer")}
    fresh = request.getfixturevalue("postgres_database")
    return {role: fresh() for role in ("shuffler", "analyzer")}
