"""Turns of the processes of one service at one SQLite file.

SQLite lets one process write at a time, and lets the others look again after pauses that grow. With
a lock of the operating system's the next one goes on within a moment, and nobody waits for long.
Such a lock is given back when a process ends, even by SIGKILL. Where there are none (Windows), a
service has one process only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.store.private import private_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LONGEST_SECONDS = 10.0
"""How long to wait for another process's turn."""
TURN_PAUSE_SECONDS, FREE_PAUSE_SECONDS = 0.0005, 0.02


class Turns:
    """The locks of one process on two files beside a database: one is locked by whoever writes, the
    other one is shared by all processes that have joined the service's first."""

    def __init__(self, database: str) -> None:
        self._writing, self._joined = Path(f"{database}.turn"), Path(f"{database}.joined")
        self._files: dict[Path, int] = {}

    def _open(self, path: Path) -> int:
        if path not in self._files:
            private_file(path)
            self._files[path] = os.open(path, os.O_RDWR)
        return self._files[path]

    def join(self) -> None:
        """Counts this process among those of the service until it ends."""
        if fcntl is not None:
            fcntl.flock(self._open(self._joined), fcntl.LOCK_SH)

    def free(self, seconds: float) -> bool:
        """Waits until no process has joined any more; False after so many seconds."""
        if fcntl is None or not self._joined.exists():
            return True
        try:
            return _locked(self._open(self._joined), seconds, FREE_PAUSE_SECONDS)
        finally:
            self.end()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """While this process alone writes; raises `StorageUnavailable` if another one takes too
        long."""
        if fcntl is None:
            yield
            return
        file = self._open(self._writing)
        if not _locked(file, LONGEST_SECONDS, TURN_PAUSE_SECONDS):
            raise StorageUnavailable("Another process writes the store for too long; try later.")
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def end(self) -> None:
        """Gives all locks back."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def _locked(file: int, seconds: float, pause: float) -> bool:
    """Locks a file; False if others hold it for so many seconds."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > end:
            return False
        time.sleep(pause)
