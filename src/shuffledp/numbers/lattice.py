"""Error distributions in floats, for reporting only: binomial masses, a noise law on a lattice, and
the law of a weighted sum of independent errors.

The characteristic functions of all parts are known; their product, transformed once, is the law of
the whole error on a grid. The errors of a real sum are spread over thousands of lattice points, so
a grid loses nothing that an interval could show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Complexes = NDArray[np.complex128]

LATTICE_POINTS = 1 << 16
REACH = 24.0  # standard deviations on each side of the mean: the rest is below 10⁻¹⁴


def binomial_masses(trials: Integers, probability: float) -> tuple[Integers, Floats]:
    """(first, masses), a row for each of Bin(trials, probability): around its mean, up to
    negligible tails; shorter rows end in zeros."""
    mean = trials * probability
    reach = 10 * np.sqrt(mean * (1 - probability)) + 40
    first = np.maximum(0, mean - reach).astype(np.int64)
    last = np.minimum(trials, (mean + reach).astype(np.int64))
    places = np.arange(int((last - first).max()) + 1)
    k = (first[:, None] + places).astype(np.float64)
    odds = np.maximum(trials[:, None] - k, 0.0) / (k + 1) * (probability / (1 - probability))
    with np.errstate(divide="ignore"):
        steps = np.where(places < (last - first)[:, None], np.log(odds), -np.inf)
    logs = np.zeros_like(k)
    np.cumsum(steps[:, :-1], axis=1, out=logs[:, 1:])
    masses = np.exp(logs - logs.max(axis=1, keepdims=True))
    return first, masses / masses.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class LatticeLaw:
    """A law with masses at first·step, (first+1)·step, …"""

    step: int
    first: int
    masses: Floats

    @cached_property
    def cumulative(self) -> Floats:
        """P(X ≤ (first+k)·step) for k = 0, 1, …"""
        return np.asarray(np.minimum(np.cumsum(self.masses) / self.masses.sum(), 1.0))

    def at_most(self, bound: Floats) -> Floats:
        """P(X ≤ bound)."""
        index = np.floor(bound / self.step).astype(np.int64) - self.first
        inside = self.cumulative[np.clip(index, 0, len(self.cumulative) - 1)]
        return np.where(index < 0, 0.0, inside)


def lattice_law(
    log_characteristic: Callable[[Floats], Complexes], mean: float, spread: float
) -> LatticeLaw:
    """The law of an integer with this ln E[e^(itX)], mean and standard deviation: exact on the
    integers, or on a lattice of a thousandth of its spread where that is wide."""
    step = max(1, int(np.ceil((2 * REACH * spread + 64) / LATTICE_POINTS)))
    t = 2 * np.pi * np.fft.fftfreq(LATTICE_POINTS)
    first = round(mean / step) - LATTICE_POINTS // 2
    logs = log_characteristic(t / step)
    masses = np.fft.ifft(np.exp(logs + 1j * first * -t).conj()).real
    return LatticeLaw(step, first, np.maximum(masses, 0.0))


def interpolated(cumulative: Floats, places: Floats) -> Floats:
    """Cumulative masses of laws, a row for each, at places between their points: a row of places
    for each law."""
    below = np.floor(places).astype(np.int64)
    rows, last = np.arange(len(cumulative))[:, None], cumulative.shape[1] - 1
    low = cumulative[rows, np.minimum(np.maximum(below, 0), last)]  # faster than clip
    high = cumulative[rows, np.minimum(np.maximum(below + 1, 0), last)]
    inside = low + (places - below) * (high - low)
    chances = np.where(below < 0, 0.0, np.where(below >= last, 1.0, inside))
    return np.asarray(np.clip(chances, 0.0, 1.0))


def log_negative_binomial(shape: float, decay: float, t: Floats) -> Complexes:
    """ln E[e^(itX)] for NB(shape, 1 − e^−decay)."""
    kept = np.exp(-decay + 1j * t)
    return np.asarray(shape * (np.log(-np.expm1(-decay)) - np.log(1 - kept)))


def lattice_bins(places: Floats, width: float) -> Floats:
    """Bin edges of about this width, with the same number of lattice points in each bin."""
    step = float(np.median(np.diff(places))) if len(places) > 1 else 1.0
    group = max(1, round(width / step))
    start = places[0] - (group - 0.5) * step
    return np.arange(start, places[-1] + group * step, group * step)


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
    """Errors on a grid and how likely each is, random rounding included; the grid fits the total
    variance, or a given one, so that several errors can share a grid."""
    if spread is None:
        spread = rounding_variance + sum(part.weight**2 * part.variance for part in parts)
    step = 2 * GRID_REACH * spread**0.5 / GRID_POINTS
    t = 2 * np.pi * np.fft.rfftfreq(GRID_POINTS, step)
    logs = np.asarray(-rounding_variance * t * t / 2, np.complex128)
    for part in parts:
        logs = logs + part.log_error(t * part.weight)
    density = np.fft.fftshift(np.fft.irfft(np.exp(logs).conj(), GRID_POINTS))
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
