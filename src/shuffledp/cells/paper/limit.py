"""The pairs that no flood can replace (MATH §3)."""

from __future__ import annotations

import math
from fractions import Fraction

from shuffledp.numbers.bisection import bisect

MARGIN = 1e-9
SMALLEST = 5e-324
"""The float next to 0."""


def least_pairs(loss: Fraction, noise: Fraction, muted: Fraction, enough: int) -> float:
    """At most the s with 1/((e^loss − 1)A) ≤ s·e^(s(loss − noise))·(1 + 1/s)^(s+1), A the odds of
    being muted: the right side rises from 1 on.

    Requires: noise ≤ loss; `enough` pairs are known to be enough.
    """
    odds = max(float(muted / (1 - muted)), SMALLEST)  # larger odds need fewer pairs
    left = -math.log(math.expm1(float(loss))) - math.log(odds)
    gap = float(loss - noise)

    def enough_pairs(s: float) -> bool:
        return left <= gap * s + (s + 1) * math.log1p(s) - s * math.log(s)

    if left <= 0:
        return 0.0
    return bisect(enough_pairs, 0.0, float(enough), steps=60) * (1 - MARGIN)
