"""The differences of ln Γ and ψ between x and x + s, for arrays of floats that only propose.

Differences are taken inside Stirling's series (after a shift by 3), so they stay accurate even if x
is 10¹² and s is a thousand.
"""

from __future__ import annotations

import numpy as np

from shuffledp.numbers.lattice import Floats

SHIFT = 3


def log_gamma_rise(x: Floats, s: Floats) -> Floats:
    """ln Γ(x+s) − ln Γ(x) for x > 0, s ≥ 0."""
    y, z = x + SHIFT, x + s + SHIFT
    result: Floats = (z - 0.5) * np.log1p(s / y) + s * (np.log(y) - 1)
    result += _log_gamma_series(1 / z) - _log_gamma_series(1 / y)
    for step in range(SHIFT):
        result -= np.log1p(s / (x + step))
    return result


def digamma_rise(x: Floats, s: Floats) -> Floats:
    """ψ(x+s) − ψ(x) for x > 0, s ≥ 0."""
    y, z = x + SHIFT, x + s + SHIFT
    result: Floats = np.log1p(s / y) + _digamma_series(1 / z) - _digamma_series(1 / y)
    for step in range(SHIFT):
        result += s / ((x + step) * (x + s + step))
    return result


def _log_gamma_series(inverse: Floats) -> Floats:
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square / 1260))


def _digamma_series(inverse: Floats) -> Floats:
    square = inverse * inverse
    return -inverse / 2 - square * (1 / 12 - square * (1 / 120 - square / 252))
