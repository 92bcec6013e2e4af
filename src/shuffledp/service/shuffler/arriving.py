"""A limit on all bodies together that have not arrived completely."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from shuffledp.service.http.problems import Problem

MOST_ARRIVING_BYTES = 64 << 20


class Arriving:
    """How many bytes of bodies are awaited; beyond the limit further ones are told 503."""

    def __init__(self) -> None:
        self._bytes = 0

    @contextlib.contextmanager
    def room(self, need: int) -> Iterator[None]:
        """Room for a body while it arrives."""
        if self._bytes + need > MOST_ARRIVING_BYTES:
            raise Problem(
                503, "busy", "Too many uploads arrive; send the same again later.", retry_after=5
            )
        self._bytes += need
        try:
            yield
        finally:
            self._bytes -= need
