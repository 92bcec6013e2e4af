"""A limit on the total size of incomplete request bodies, by the bytes received."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from shuffledp.service.http.problems import Problem

MOST_ARRIVING_BYTES = 64 << 20


class Arriving:
    """How many bytes of incomplete bodies are in memory; the body that exceeds the limit gets 503.
    Declared lengths do not count, so slow requests take nothing away from others."""

    def __init__(self, most: int = MOST_ARRIVING_BYTES) -> None:
        self._most = most
        self._bytes = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[Callable[[int], None]]:
        """Counts the bytes of a body while it arrives; call the returned function with each part's
        length."""
        mine = 0

        def received(length: int) -> None:
            nonlocal mine
            if self._bytes + length > self._most:
                raise Problem(
                    503,
                    "busy",
                    "Too many uploads at once; send the same again later.",
                    retry_after=5,
                )
            mine += length
            self._bytes += length

        try:
            yield received
        finally:
            self._bytes -= mine
