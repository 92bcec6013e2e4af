"""The time: every rule that depends on the date calls one function, which tests replace."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Returns the seconds since the beginning of 1970, UTC."""
system_clock: Clock = time.time
CLOCK_SECONDS = 300
"""By how much two clocks may differ: a task is valid from this long before its creation, and a
shuffler accepts reports until this long after it expired."""
DAY_SECONDS = 86_400
VALID_DAYS = 90
"""How long a task is valid by default."""
