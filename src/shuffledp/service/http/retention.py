"""Periodically deletes what is older than the operator wants to keep."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from shuffledp.service.http.logs import log
from shuffledp.tasks.clock import DAY_SECONDS, Clock

LOOK_AGAIN_SECONDS = 3600.0


class Retention(ABC):
    """What a role deletes by age."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def before(self, days: int) -> int:
        """The time `days` days ago, in seconds since 1970."""
        return int(self._clock()) - days * DAY_SECONDS

    @abstractmethod
    async def once(self) -> None:
        """Deletes everything that is too old now."""

    async def run(self) -> None:
        """Deletes what is too old every hour, until it is cancelled."""
        while True:
            try:
                await self.once()
            except Exception as error:  # retried later in any case
                log("retention failed", level="error", error=type(error).__name__)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
