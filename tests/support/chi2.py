"""The χ² test of goodness of fit; the p-value comes from mpmath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray


def p_value(
    draws: NDArray[Any], expected: Sequence[float] | NDArray[np.float64], first: int = 0
) -> float:
    """The p-value of the χ² test of draws against the probabilities of first, first+1, …; rare
    values are put together."""
    chances = np.asarray(expected, float)
    inside = (draws >= first) & (draws < first + len(chances))
    counts = np.bincount(draws[inside] - first, minlength=len(chances)).astype(float)
    counts = np.append(counts, (~inside).sum())
    chances = np.append(chances, max(1 - chances.sum(), 0.0)) * len(draws)
    groups: list[tuple[float, float]] = []
    seen = wanted = 0.0
    for count, chance in zip(counts, chances, strict=True):
        seen, wanted = seen + count, wanted + chance
        if wanted >= 8:
            groups.append((seen, wanted))
            seen = wanted = 0.0
    if groups and (wanted or seen):
        last = groups.pop()
        groups.append((last[0] + seen, last[1] + wanted))
    statistic = sum((count - chance) ** 2 / chance for count, chance in groups)
    freedom = max(len(groups) - 1, 1)
    return float(mpmath.gammainc(freedom / 2, statistic / 2, mpmath.inf, regularized=True))
