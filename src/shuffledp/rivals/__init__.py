"""The protocols that [GKM23] is compared with, behind the same verbs.

`rivals_for(query)` lists them, `run` runs one on a column, `table` compares them with ours.
"""

from __future__ import annotations

from shuffledp.rivals.base import Claim, Rival, RivalForecast, Task
from shuffledp.rivals.registry import RIVALS, Entry, rival, rivals_for
from shuffledp.rivals.run import RivalResult, run

__all__ = [
    "RIVALS",
    "Claim",
    "Entry",
    "Rival",
    "RivalForecast",
    "RivalResult",
    "Task",
    "rival",
    "rivals_for",
    "run",
]
