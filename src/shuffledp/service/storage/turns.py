"""Turns of the processes of one service at one SQLite file.

SQLite lets one process write at a time, and the others look again and again whether it has
finished. The operating system's locks on parts of a file wake the next one at once instead. They
are given back when a process ends, even by SIGKILL. Where there are none (Windows), a service has
one process only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from shuffledp.service.storage.private import private_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

WRITING, JOINED = 0, 1
"""The byte that the writing process locks, and the byte that all further processes share."""
LOOK_AGAIN_SECONDS = 0.02


class Turns:
    """The locks of one process in a file beside a database."""

    def __init__(self, database: str) -> None:
        self._path = Path(f"{database}.turns")
        self._file = -1

    def open(self) -> None:
        """Gets ready for taking turns."""
        private_file(self._path)
        self._file = os.open(self._path, os.O_RDWR)

    def join(self) -> None:
        """Gets ready, and counts this process among those of the service until it ends."""
        self.open()
        if fcntl is not None:
            fcntl.lockf(self._file, fcntl.LOCK_SH, 1, JOINED)

    def free(self, seconds: float) -> bool:
        """Waits until no process has joined any more; False after so many seconds."""
        if fcntl is None or not self._path.exists():
            return True
        self.open()
        try:
            end = time.monotonic() + seconds
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, JOINED)
                    return True
                if time.monotonic() > end:
                    return False
                time.sleep(LOOK_AGAIN_SECONDS)
        finally:
            self.end()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """While this process alone writes."""
        if fcntl is None:
            yield
            return
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, WRITING)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, WRITING)

    def end(self) -> None:
        """Gives all locks back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
