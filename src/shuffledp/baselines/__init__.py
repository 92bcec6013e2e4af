"""The protocols that [GKM23] is compared with, behind the same verbs as ours.

`rivals_for(query)` lists them, `run` runs one on a column, and `shuffledp.baselines.table.compare`
compares them with ours.
"""

from __future__ import annotations

from shuffledp.baselines.base import Rival, RivalForecast, Task
from shuffledp.baselines.claim import Claim
from shuffledp.baselines.registry import RIVALS, Entry, rival, rivals_for
from shuffledp.baselines.results import RivalEstimate, RivalHistogram, RivalResult
from shuffledp.baselines.run import run

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
