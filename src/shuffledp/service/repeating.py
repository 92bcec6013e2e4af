"""Background work that is done again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shuffledp.service.http.logs import log


async def every(seconds: float, work: Callable[[], Awaitable[object]], failed: str) -> None:
    """Does some work now and again after each pause of `seconds`, until it is cancelled. A failure
    is logged as `failed`, and the work is tried again after the pause."""
    while True:
        try:
            await work()
        except Exception as error:
            log(failed, level="error", error=type(error).__name__)
        await asyncio.sleep(seconds)
