"""The law of a weighted sum of cell errors, for the intervals of real sums. Reporting only.

The characteristic functions of all parts are known in closed form; their product, transformed
once, is the density of the whole error on a grid. The errors of a real sum are spread over
thousands of lattice points, so that a grid loses nothing that an interval could show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp.accuracy.cell_error import log_negative_binomial
from shuffledp.cells.paper import Cell
from shuffledp.exact.numbers import to_float

POINTS = 1 << 14
REACH = 16.0  # standard deviations on each side

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """One cell's share of the error: its weight, and the sum of the values in it."""

    cell: Cell
    weight: float
    total: float


def log_part(part: Part, users: int, t: Floats) -> Complexes:
    """ln E[e^(it·error)] of one cell's weighted estimate; lumps of D are muted together."""
    cell, shape = part.cell, users / part.cell.users
    q = float(cell.mute_probability)
    scaled = t * part.weight / (1 - q)
    noise = log_negative_binomial(shape, float(cell.plus_noise.decay), scaled)
    noise = noise + log_negative_binomial(shape, float(cell.minus_noise.decay), -scaled)
    centre = to_float(lambda: cell.plus_noise.mean() - cell.minus_noise.mean()) * shape
    h, lumps = cell.stand_in, part.total / cell.largest
    muted = lumps * np.log1p(q * np.expm1(-1j * scaled * (cell.largest - h)))
    muted = muted + (users - lumps) * np.log1p(q * np.expm1(1j * scaled * h))
    lost = q * (part.total - users * h)
    return np.asarray(noise + muted + 1j * scaled * (lost - centre))


def part_variance(part: Part, users: int) -> float:
    """The variance of that error."""
    squares = part.cell.most_squares(users, Fraction(part.total))
    mse = to_float(lambda: part.cell.mean_squared_error(users, squares))
    return part.weight**2 * mse


def error_masses(
    parts: Sequence[Part], users: int, rounding_variance: float
) -> tuple[Floats, Floats]:
    """Errors on a grid and how likely each is, rounding included."""
    spread = rounding_variance + sum(part_variance(part, users) for part in parts)
    step = 2 * REACH * spread**0.5 / POINTS
    t = 2 * np.pi * np.fft.fftfreq(POINTS, step)
    logs = sum((log_part(part, users, t) for part in parts), start=-rounding_variance * t * t / 2)
    density = np.fft.fftshift(np.fft.ifft(np.exp(logs).conj()).real)
    masses = np.maximum(density, 0.0)
    return (np.arange(POINTS) - POINTS // 2) * step, masses / masses.sum()


def error_quantiles(
    parts: Sequence[Part], users: int, rounding_variance: float, levels: Sequence[float]
) -> list[float]:
    """Quantiles of the whole error."""
    places, masses = error_masses(parts, users, rounding_variance)
    return [float(np.interp(level, np.cumsum(masses), places)) for level in levels]
