"""Binomial probabilities in floats that keep their relative accuracy."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Masses = NDArray[np.float64]

WINDOW_DEVIATIONS = 12  # around the mean; what lies beyond is below 10⁻²⁵


@lru_cache(maxsize=512)
def binomial(trials: int, chance: float) -> Masses:
    """Bin(trials, chance) around its mean, up to tails below 10⁻²⁵; only the shape
    matters, so the first value is not given.

    Every mass is the one before times a ratio, from the mode outwards, and the whole is
    normalised by its sum: relative errors are a few hundred roundings.
    """
    if trials == 0 or chance == 0:
        return np.ones(1)
    mean = trials * chance
    reach = WINDOW_DEVIATIONS * math.sqrt(mean * (1 - chance)) + 60
    first, last = max(0, int(mean - reach)), min(trials, int(mean + reach))
    mode = min(max(int((trials + 1) * chance), first), last)
    odds = chance / (1 - chance)
    up = np.arange(mode, last, dtype=np.float64)
    down = np.arange(mode, first, -1, dtype=np.float64)
    right = np.cumprod((trials - up) / (up + 1) * odds)
    left = np.cumprod(down / (trials - down + 1) / odds)
    masses = np.concatenate([left[::-1], [1.0], right])
    result: Masses = masses / masses.sum()
    return result
