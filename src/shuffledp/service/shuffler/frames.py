"""Messages between the process that hands out places and those that answer the public address.

A frame is its length (4 bytes), its kind (1), the number of the question that it belongs to (8),
and JSON. Frames that are sent in the same turn of the event loop leave together.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, cast

HEAD = struct.Struct(">IBQ")


class Kind(IntEnum):
    """What a frame says."""

    HELLO = 8
    """A door has connected, and wants to know which further stores are open; the answer, too."""
    STORE = 9
    """A further store is open now."""
    TAKE = 1
    """Give me places: how many of each task."""
    TAKEN = 2
    """Here are places, or why not."""
    SETTLE = 3
    """These places were filled, or not."""
    OPENED = 4
    """I have opened a store, and what the process before me had begun there is over."""
    FIGURES = 5
    """Counts and durations to add to the metrics."""
    TASK = 6
    """A task is new, has another state, or was deleted."""
    NOTED = 7
    """I know."""


Receiver = Callable[["Frames", Kind, int, Any], None]


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
            content = json.loads(self._come[at + HEAD.size : end])
            at = end
            self._receiver(self, Kind(kind), number, content)
        del self._come[:at]

    def send(self, kind: Kind, number: int = 0, content: Any = None) -> None:
        """Sends a frame at the end of this turn of the event loop."""
        if not self._going:
            asyncio.get_running_loop().call_soon(self._flush)
        text = json.dumps(content).encode()
        self._going += (HEAD.pack(len(text), kind, number), text)

    def _flush(self) -> None:
        going, self._going = self._going, []
        if self._transport is not None:
            self._transport.write(b"".join(going))

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.close()
