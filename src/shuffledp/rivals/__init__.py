"""The protocols that [GKM23] is compared with, behind the same verbs as ours.

`rivals_for(query)` lists them, `run` runs one on a column, and `shuffledp.rivals.table.compare`
compares them with ours.
"""

from __future__ import annotations

from shuffledp.rivals.base import Rival, RivalForecast, Task
from shuffledp.rivals.claim import Claim
from shuffledp.rivals.registry import RIVALS, Entry, rival, rivals_for
from shuffledp.rivals.results import RivalEstimate, RivalHistogram, RivalResult
from shuffledp.rivals.run import run

__all__ = [
    "RIVALS",
    "Claim",
    "Entry",
    "Rival",
    "RivalEstimate",
    "RivalForecast",
    "RivalHistogram",
    "RivalResult",
    "Task",
    "rival",
    "rivals_for",
    "run",
]
