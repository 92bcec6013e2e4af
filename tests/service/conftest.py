"""Stores to run the suite on: SQLite always, PostgreSQL where a server is installed.

Without PostgreSQL or Chromium their tests are left out, loudly; with SHUFFLEDP_ALL_TESTS=1, as in
CI, a missing one is a failure.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_needs import missing


def postgres_programs() -> Path | None:
    """The folder of initdb and postgres."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL server of its own, on a socket in a folder of its own."""
    programs = postgres_programs()
    if programs is None:
        missing("PostgreSQL", "Debian: apt-get install postgresql")
        return
    folder = tempfile.mkdtemp(prefix="pg-")
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    if user:
        shutil.chown(folder, user)
    run = {"user": user, "stdout": subprocess.DEVNULL, "cwd": folder}
    subprocess.run([programs / "initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust",
                    "--no-instructions"], check=True, **run)
    server = subprocess.Popen(
        [programs / "postgres", "-D", f"{folder}/data", "-k", folder, "-c", "listen_addresses="],
        user=user, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        _wait_ready(programs, folder)
        yield f"{folder}"
    finally:
        server.send_signal(signal.SIGINT)  # ends open sessions, too
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_ready(programs: Path, folder: str) -> None:
    import time

    for _ in range(200):
        ready = subprocess.run([programs / "pg_isready", "-q", "-h", folder], check=False)
        if ready.returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError("PostgreSQL did not start")


def new_postgres_database(folder: str) -> str:
    """The URL of a fresh database."""
    name = f"t{uuid.uuid4().hex[:12]}"
    programs = postgres_programs()
    subprocess.run([programs / "createdb", "-h", folder, "-U", "postgres", name], check=True)
    return f"postgresql://postgres@/{name}?host={folder}"


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A fresh store for each role."""
    if request.param == "sqlite":
        return {role: f"sqlite:{tmp_path}/{role}.db" for role in ("shuffler", "analyzer")}
    folder = request.getfixturevalue("postgres_server")
    return {role: new_postgres_database(folder) for role in ("shuffler", "analyzer")}
