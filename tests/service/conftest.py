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
def postgres_database() -> Iterator[Callable[[], str]]:
    """Makes fresh databases on a server of its own, and gives their URLs."""
    place = postgres.programs()
    if place is None:
        missing("PostgreSQL", postgres.HOW)
        return
    with postgres.running(place) as folder:
        yield lambda: postgres.new_database(place, folder)


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A fresh store for each role."""
    if request.param == "sqlite":
        return {role: f"sqlite:{tmp_path}/{role}.db" for role in ("shuffler", "analyzer")}
    fresh = request.getfixturevalue("postgres_database")
    return {role: fresh() for role in ("shuffler", "analyzer")}
