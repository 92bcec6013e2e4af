"""The stage of a season: all servers, a series that is registered, and people who are enrolled."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import postgres_server as postgres
import pytest
from browsers import Browser
from bucket_server import bucket_running
from client_site import client_site
from season_backup import Backups
from season_play import Season
from season_stage import Stage
from service_needs import missing


@pytest.fixture
def season(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Browser) -> Iterator[Season]:
    """All servers, with a series that is registered and people who are enrolled."""
    programs = postgres.programs()
    if programs is None:
        missing("PostgreSQL", postgres.HOW)
        return
    (tmp_path / "site").mkdir()
    with (
        client_site(tmp_path / "site") as site,
        postgres.running(programs) as socket,
        bucket_running() as bucket,
        tempfile.TemporaryDirectory(prefix="season-") as temporary,
    ):
        browser.open(site)
        store = postgres.new_database(programs, socket)
        stage = Stage(tmp_path / "servers", temporary, store, origin=site, bucket=bucket)
        for role in ("shuffler", "analyzer", "issuer"):
            name = f"SHUFFLEDP_COLLECTOR_TOKEN_{role.upper()}"
            monkeypatch.setenv(name, stage.tokens[f"collector at {role}"])
        monkeypatch.setenv("SHUFFLEDP_OPERATOR_TOKEN", stage.tokens["operator"])
        with stage.running():
            backups = Backups(tmp_path / "copies", programs, socket)
            found = Season(tmp_path, stage, backups, browser)
            with stage.telling():
                found.prepare()
            yield found
