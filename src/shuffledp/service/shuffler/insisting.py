"""Work that must be done in the end, whatever fails before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shuffledp.service.http.logs import log

LOOK_AGAIN_SECONDS = 1.0


async def insist(
    work: Callable[[], Awaitable[None]], failure: str, given_up: Callable[[], bool] = lambda: False
) -> None:
    """Tries until it works, or is given up; logs each `failure`."""
    while not given_up():
        try:
            return await work()
        except Exception as error:  # tried again later, whatever it was
            log(failure, level="error", error=type(error).__name__)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
