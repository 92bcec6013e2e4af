"""Quantiles of errors that are not quite normal, from their first four cumulants. For reporting
only.

The noise of one cell has tails like a Laplace law; a sum of many is nearly normal. Between the two,
the sum is approximated by a normal and a Laplace part with the right variance and fourth cumulant;
errors that are mostly 0, by a Laplace law that is 0 with some probability. A skewed law is shifted
by the first term of the Cornish-Fisher expansion.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from shuffledp.numbers.bisection import bisect
from shuffledp.numbers.lattice import Complexes, Floats

LAPLACE_KURTOSIS = 3.0
LEAST_KURTOSIS = 1e-3  # below it, an error counts as normal
KURTOSIS_KNOTS = 24
CUMULANT_STEPS = (0.15, 0.3, 0.45, 0.6)  # in standard deviations


def third_and_fourth_cumulants(
    log_error: Callable[[Floats], Complexes], variance: float
) -> tuple[float, float]:
    """The third and the fourth cumulant of the error with this ln E[e^(it·error)]."""
    spread = math.sqrt(variance)
    steps = np.array(CUMULANT_STEPS)
    logs = log_error(steps / spread)
    orders = np.arange(len(steps))
    even, odd = 2 * orders + 2, 2 * orders + 1
    evens = np.linalg.solve(steps[:, None] ** even, logs.real)
    odds = np.linalg.solve(steps[:, None] ** odd, logs.imag)
    return float(-odds[1] * 6 * spread**3), float(evens[1] * 24 * spread**4)


def error_ends(
    variances: Floats, third: Floats, fourth: Floats, outside: float
) -> tuple[Floats, Floats]:
    """The range of an error with these cumulants, with probability outside/2 left out on each
    side."""
    spread = np.sqrt(np.maximum(variances, 0.0))
    safe = np.where(spread > 0, spread, 1.0)
    kurtosis = fourth / safe**4
    knots, reaches = _reaches(outside)
    inner = np.interp(kurtosis, knots, reaches)
    reach = np.where(kurtosis > LAPLACE_KURTOSIS, _mostly_zero(kurtosis, outside), inner) * spread
    z = NormalDist().inv_cdf(1 - outside / 2)
    shift = (z * z - 1) / 6 * third / safe**2
    shift = np.clip(np.where(spread > 0, shift, 0.0), -reach / 2, reach / 2)
    return shift - reach, shift + reach


@lru_cache(maxsize=64)
def _reaches(outside: float) -> tuple[Floats, Floats]:
    """(kurtosis, standard deviations that cover all but `outside`), up to Laplace's law."""
    knots = np.concatenate(
        [[0.0], np.geomspace(LEAST_KURTOSIS, LAPLACE_KURTOSIS, KURTOSIS_KNOTS - 1)]
    )
    return knots, np.array([_reach(float(kurtosis), outside) for kurtosis in knots])


def _reach(kurtosis: float, outside: float) -> float:
    if kurtosis < LEAST_KURTOSIS:
        return NormalDist().inv_cdf(1 - outside / 2)
    if kurtosis > LAPLACE_KURTOSIS * (1 - 1e-9):
        return -math.log(outside) / math.sqrt(2)
    scale = (kurtosis / 12) ** 0.25
    normal = math.sqrt(1 - 2 * scale**2)

    def far_enough(x: float) -> bool:
        return not _normal_laplace_tail(x, normal, scale) > outside / 2

    return bisect(far_enough, 0.0, 4.0 - 2 * math.log(outside), steps=60)


def _normal_laplace_tail(x: float, normal: float, scale: float) -> float:
    """P(N + L > x) for a normal N and a Laplace L of these spreads."""

    def above(y: float) -> float:
        return math.erfc(y / math.sqrt(2)) / 2

    ratio, y = normal / scale, x / normal
    left = math.exp(ratio**2 / 2 - x / scale) * above(ratio - y)
    right = above(y + ratio)
    right = math.exp(ratio**2 / 2 + x / scale + math.log(right)) if right > 0 else 0.0
    return above(y) + (left - right) / 2


def _mostly_zero(kurtosis: Floats, outside: float) -> Floats:
    """The reach of an error that is Laplace distributed with some probability and otherwise 0."""
    chance = 6 / (np.maximum(kurtosis, LAPLACE_KURTOSIS) + 3)
    return np.asarray(np.maximum(np.log(chance / outside), 0.0) / np.sqrt(2 * chance))
