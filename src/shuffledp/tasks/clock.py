"""What time it is: every rule that depends on the date asks one function, which tests replace."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Gives the seconds since the beginning of 1970, UTC."""
system_clock: Clock = time.time
CLOCK_SECONDS = 300
"""By how much two clocks may differ: a task begins so long before it is made, and a shuffler takes
reports so long after it has expired."""
DAY_SECONDS = 86_400
VALID_DAYS = 90
"""How long a task is valid unless something else is said."""
