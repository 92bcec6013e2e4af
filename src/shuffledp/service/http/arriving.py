"""A limit on all bodies together that have not arrived completely, by the bytes received."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from shuffledp.service.http.problems import Problem

MOST_ARRIVING_BYTES = 64 << 20


class Arriving:
    """How many bytes of unfinished bodies are held; beyond the limit the one that exceeds it is
    told 503. What a request declares counts for nothing, so that slow ones hold nothing from
    others."""

    def __init__(self, most: int = MOST_ARRIVING_BYTES) -> None:
        self._most = most
        self._bytes = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[Callable[[int], None]]:
        """Counts the bytes of a body while it arrives: call what this gives with each part's
        length."""
        mine = 0

        def received(length: int) -> None:
            nonlocal mine
            if self._bytes + length > self._most:
                raise Problem(
                    503,
                    "busy",
                    "Too many uploads arrive; send the same again later.",
                    retry_after=5,
                )
            mine += length
            self._bytes += length

        try:
            yield received
        finally:
            self._bytes -= mine
