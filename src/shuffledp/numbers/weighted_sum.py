"""The law of a weighted sum of independent errors, for the intervals of real sums. Reporting only.

The characteristic functions of all parts are known; their product, transformed once, is the
density of the whole error on a grid. The errors of a real sum are spread over thousands of
lattice points, so that a grid loses nothing that an interval could show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shuffledp.numbers.lattice import Complexes, Floats

GRID_POINTS = 1 << 14
GRID_REACH = 16.0  # standard deviations on each side


@dataclass(frozen=True)
class Part:
    """One independent part of the error: its weight, its variance and its ln E[e^(it·error)]."""

    weight: float
    variance: float
    log_error: Callable[[Floats], Complexes]


def error_masses(
    parts: Sequence[Part], rounding_variance: float, spread: float | None = None
) -> tuple[Floats, Floats]:
    """Errors on a grid and how likely each is, random rounding included; the grid is made for the
    variance of the whole, or for the one that is given, so that several errors share a grid."""
    if spread is None:
        spread = rounding_variance + sum(part.weight**2 * part.variance for part in parts)
    step = 2 * GRID_REACH * spread**0.5 / GRID_POINTS
    t = 2 * np.pi * np.fft.fftfreq(GRID_POINTS, step)
    logs = np.asarray(-rounding_variance * t * t / 2, np.complex128)
    for part in parts:
        logs = logs + part.log_error(t * part.weight)
    density = np.fft.fftshift(np.fft.ifft(np.exp(logs).conj()).real)
    masses = np.maximum(density, 0.0)
    return (np.arange(GRID_POINTS) - GRID_POINTS // 2) * step, masses / masses.sum()


def error_quantiles(
    parts: Sequence[Part],
    rounding_variance: float,
    levels: Sequence[float],
    spread: float | None = None,
) -> list[float]:
    """Quantiles of the whole error."""
    errors, masses = error_masses(parts, rounding_variance, spread)
    return [float(np.interp(level, np.cumsum(masses), errors)) for level in levels]
