"""Calls that may wait for a network, with a time limit and stopped by Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 20.0
"""How many seconds to wait for an object store."""
GLANCE = 0.1


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns or raises; raises `TimeoutError` if it takes longer.

    The call runs in a separate thread, because native code that waits for a network does not notice
    Ctrl-C. After a timeout, the thread is abandoned and ends with the process.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    waited = 0.0
    while thread.is_alive() and waited < seconds:
        thread.join(GLANCE)
        waited += GLANCE
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError
    return found[0]
