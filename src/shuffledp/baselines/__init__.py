"""The protocols that [GKM23] is compared with, behind the same verbs as ours.

`baselines_for(query)` lists them, `run` runs one on a column, and
`shuffledp.baselines.table.compare` compares them with ours.
"""

from __future__ import annotations

from shuffledp.baselines.base import Baseline, BaselineForecast, Setting
from shuffledp.baselines.claim import Claim
from shuffledp.baselines.registry import BASELINES, Entry, baseline, baselines_for
from shuffledp.baselines.run import BaselineEstimate, BaselineHistogram, BaselineResult, run

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineEstimate",
    "BaselineForecast",
    "BaselineHistogram",
    "BaselineResult",
    "Claim",
    "Entry",
    "Setting",
    "baseline",
    "baselines_for",
    "run",
]
