"""Clients that do not behave, and how much memory a server takes meanwhile."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

ATTACKER = "127.0.0.2"
"""Where attacks come from: an address of its own, so that others can be told from it."""


def connect(url: str, source: str = ATTACKER, timeout: float = 60) -> socket.socket:
    """A connection to a server."""
    parts = urlsplit(url)
    return socket.create_connection(
        (parts.hostname or "", parts.port or 0), timeout=timeout, source_address=(source, 0)
    )


def send_until_refused(client: socket.socket, data: bytes, pieces: int) -> int:
    """Sends the data so many times; how many bytes went out before the server closed."""
    sent = 0
    with contextlib.suppress(OSError):
        for _ in range(pieces):
            client.sendall(data)
            sent += len(data)
    return sent


def status_of(client: socket.socket) -> int:
    """The status in the server's answer; 0 if it closed without one."""
    with contextlib.suppress(OSError):
        answer = client.recv(65536)
        if answer.startswith(b"HTTP/1.1 "):
            return int(answer[9:12])
    return 0


def closed(client: socket.socket) -> bool:
    """Whether the server has ended this connection."""
    client.setblocking(False)
    try:
        while client.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def resident_mb(pid: int) -> float:
    """The memory that a program holds, in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class MemoryWatch:
    """The most memory that a program takes while the block runs, above what it had before."""

    def __init__(self, pid: int) -> None:
        self._pid, self._stop = pid, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.before = self.most = resident_mb(pid)

    @property
    def grown(self) -> float:
        return self.most - self.before

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.most = max(self.most, resident_mb(self._pid))

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.most = max(self.most, resident_mb(self._pid))
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def many(url: str, count: int) -> Iterator[list[socket.socket]]:
    """So many connections at once; those that the server refuses are among them."""
    clients: list[socket.socket] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                clients.append(connect(url, timeout=5))
        yield clients
    finally:
        for client in clients:
            client.close()


def wait_for(true: object, seconds: float = 60) -> bool:
    """Whether a condition comes true in time."""
    assert callable(true)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False
