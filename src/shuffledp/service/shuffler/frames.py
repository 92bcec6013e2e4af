"""Messages between the process that writes the store and those that answer the public address.

A frame is its length (4 bytes), its kind (1), the number of the upload it is about (8), and the
rest. Frames that are sent in the same turn of the event loop leave together.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import cast

HEAD = struct.Struct(">IBQ")
OPENING = struct.Struct(">BHHH")
ANSWERING = struct.Struct(">HH")


class Kind(IntEnum):
    """What a frame says."""

    OPEN = 1
    """An upload: task, token, length and the first part of its body."""
    PART = 2
    """The next part of a body."""
    GONE = 3
    """The client went away in the middle of its upload."""
    LIMITED = 4
    """An address came too fast."""
    MORE = 5
    """Send the next part of the body."""
    ANSWER = 6
    """What the client is told."""


Receiver = Callable[["Frames", Kind, int, bytes], None]


class Frames(asyncio.Protocol):
    """One connection that carries frames both ways."""

    def __init__(self, receiver: Receiver, lost: Callable[[Frames], None]) -> None:
        self._receiver, self._lost = receiver, lost
        self._come = bytearray()
        self._going: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no such class

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        self._come += data
        at, size = 0, len(self._come)
        while size - at >= HEAD.size:
            length, kind, number = HEAD.unpack_from(self._come, at)
            end = at + HEAD.size + length
            if end > size:
                break
            content = bytes(self._come[at + HEAD.size : end])
            at = end
            self._receiver(self, Kind(kind), number, content)
        del self._come[:at]

    def send(self, kind: Kind, number: int, content: bytes = b"") -> None:
        """Sends a frame at the end of this turn of the event loop."""
        if not self._going:
            asyncio.get_running_loop().call_soon(self._flush)
        self._going += (HEAD.pack(len(content), kind, number), content)

    def _flush(self) -> None:
        going, self._going = self._going, []
        if self._transport is not None:
            self._transport.write(b"".join(going))

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.close()


def opening(task: bytes, token: bytes, length: bytes, body: bytes, *, more: bool) -> bytes:
    """The content of an OPEN frame; `token` and `length` are headers as they came."""
    return OPENING.pack(more, len(task), len(token), len(length)) + task + token + length + body


def opened(content: bytes) -> tuple[bytes, bytes, bytes, bytes, bool]:
    """(task, token, length, body, whether more of it comes) of an OPEN frame."""
    more, task, token, length = OPENING.unpack_from(content)
    ends = [OPENING.size]
    for size in (task, token, length):
        ends.append(ends[-1] + size)
    parts = [content[low:high] for low, high in zip(ends, [*ends[1:], len(content)], strict=True)]
    return parts[0], parts[1], parts[2], parts[3], bool(more)
