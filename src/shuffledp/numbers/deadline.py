"""A time limit for verifying somebody else's parameters.

    with time_limit(60, "Verifying this task"):
        task.verify()

Proofs and searches call `check_time` between their steps, each of which takes well under a second.
Without a limit, `check_time` does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shuffledp.errors import TooCostly

_LIMIT: ContextVar[tuple[float, float, str] | None] = ContextVar("time_limit", default=None)


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Makes `check_time` raise `TooCostly` in the block after `seconds`. An enclosing limit that
    ends earlier stays in force."""
    now, outer = time.monotonic(), _LIMIT.get()
    given = (now + seconds, seconds, what)
    token = _LIMIT.set(given if outer is None or given[0] < outer[0] else outer)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def check_time() -> None:
    """Raises `TooCostly` if the time limit of the current block has passed."""
    limit = _LIMIT.get()
    if limit is not None and time.monotonic() > limit[0]:
        raise TooCostly(
            f"{limit[2]} takes longer than the {limit[1]:g} seconds allowed; plan for smaller "
            "values or cuts, or allow more time."
        )
