"""How a digit is spread when only its mean is known: as evenly as the mean allows."""

from __future__ import annotations

import numpy as np

STEEPEST = 60.0


def likely_squares(mean: float, largest: int) -> float:
    """The mean square of a digit 0..largest under the law of largest entropy with this mean, whose
    chances rise or fall by the same factor from one value to the next.

    >>> likely_squares(1.0, 2), likely_squares(0.0, 2)
    (1.6666666666666667, 0.0)
    """
    if mean <= 0 or mean >= largest:
        return float(min(max(mean, 0.0), largest)) ** 2
    values = np.arange(largest + 1, dtype=np.float64)
    low, high = -STEEPEST, STEEPEST
    for _ in range(60):
        slope = (low + high) / 2
        chances = np.exp(slope * values - max(slope * largest, 0.0))
        chances /= chances.sum()
        low, high = (slope, high) if chances @ values < mean else (low, slope)
    return float(chances @ values**2)
