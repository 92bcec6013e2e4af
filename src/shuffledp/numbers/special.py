"""How ln Γ and ψ rise between x and x + s, for arrays. Floats that only propose.

Differences are taken inside Stirling's series (after a shift by 3), so that they keep their
digits when x is 10¹² and s a thousand.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHIFT = 3


def log_gamma_rise(x: Floats, s: Floats) -> Floats:
    """ln Γ(x+s) − ln Γ(x) for x > 0, s ≥ 0."""
    y, z = x + SHIFT, x + s + SHIFT
    result: Floats = (z - 0.5) * np.log1p(s / y) + s * (np.log(y) - 1)
    result = result + (1 / z - 1 / y) / 12 - (1 / z**3 - 1 / y**3) / 360
    result = result + (1 / z**5 - 1 / y**5) / 1260
    for step in range(SHIFT):
        result = result - np.log1p(s / (x + step))
    return result


def digamma_rise(x: Floats, s: Floats) -> Floats:
    """ψ(x+s) − ψ(x) for x > 0, s ≥ 0."""
    y, z = x + SHIFT, x + s + SHIFT
    result: Floats = np.log1p(s / y) - (1 / z - 1 / y) / 2 - (1 / z**2 - 1 / y**2) / 12
    result = result + (1 / z**4 - 1 / y**4) / 120
    result = result - (1 / z**6 - 1 / y**6) / 252
    for step in range(SHIFT):
        result = result + s / ((x + step) * (x + s + step))
    return result
