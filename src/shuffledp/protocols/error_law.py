"""The true law of a cell's error, for intervals (MATH §4). Reporting only: floats are fine here.

For a true sum T the plain sum is S = T − n·h − (what the muted users held above h) + z_plus −
z_minus. With D = 1 the muted part is Bin(T, q) exactly; with larger D it depends on how T is
spread over the users, and the widest case in convex order, T in lumps of D, is used.

An interval holds the T for which S is not an outlier (inversion of two one-sided tests). It is
not cut to what is possible: below 0 the law is continued by symmetry, so that a negative estimate
keeps its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp.cell import Cell
from shuffledp.exact.numbers import to_float

Masses = NDArray[np.float64]

POINTS = 1 << 16  # of a noise law's lattice
REACH = 24.0  # standard deviations on each side of the mean: the rest is below 10⁻¹⁴


def binomial_masses(trials: int, probability: float) -> tuple[int, Masses]:
    """(first, masses) of Bin(trials, probability) around its mean, up to negligible tails."""
    mean = trials * probability
    reach = 10 * math.sqrt(mean * (1 - probability)) + 40
    first, last = max(0, int(mean - reach)), min(trials, int(mean + reach))
    mode = min(max(int((trials + 1) * probability), first), last)
    k = np.arange(first, last, dtype=np.float64)
    steps = np.log((trials - k) / (k + 1) * (probability / (1 - probability)))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    masses = np.exp(logs - logs[mode - first])
    return first, masses / masses.sum()


@dataclass(frozen=True)
class Noise:
    """z_plus − z_minus on a lattice: masses at first·step, (first+1)·step, …"""

    step: int
    first: int
    masses: Masses

    @cached_property
    def cumulative(self) -> Masses:
        return np.asarray(np.minimum(np.cumsum(self.masses) / self.masses.sum(), 1.0))

    def at_most(self, bound: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(noise ≤ bound)."""
        place = np.floor(bound / self.step).astype(np.int64) - self.first
        inside = self.cumulative[np.clip(place, 0, len(self.cumulative) - 1)]
        return np.where(place < 0, 0.0, inside)


def log_negative_binomial(shape: float, decay: float, t: Masses) -> NDArray[np.complex128]:
    """ln E[e^(itX)] for NB(shape, 1 − e^−decay)."""
    kept = np.exp(-decay + 1j * t)
    return np.asarray(shape * (np.log(-np.expm1(-decay)) - np.log(1 - kept)))


@lru_cache(maxsize=64)
def noise_of(cell: Cell, users: int) -> Noise:
    """The noise that so many users add to the plain sum, from its characteristic function: exact
    on the integers, or on a lattice of a thousandth of its spread where that is wide."""
    up, down = float(cell.plus_noise.decay), float(cell.minus_noise.decay)
    shape = users / cell.users
    spread = math.sqrt(
        shape * (math.exp(-up) / math.expm1(-up) ** 2 + math.exp(-down) / math.expm1(-down) ** 2)
    )
    mean = shape * (1 / math.expm1(up) - 1 / math.expm1(down))
    step = max(1, math.ceil((2 * REACH * spread + 64) / POINTS))
    t = 2 * np.pi * np.fft.fftfreq(POINTS)
    logs = log_negative_binomial(shape, up, t / step)
    logs = logs + log_negative_binomial(shape, down, -t / step)
    first = round(mean / step) - POINTS // 2
    masses = np.fft.ifft(np.exp(logs + 1j * first * -t).conj()).real
    return Noise(step, first, np.maximum(masses, 0.0))


def chance_at_most(cell: Cell, users: int, total: int, plain_sum: float) -> float:
    """P(S ≤ plain_sum) when the true sum is `total`."""
    noise, q, h = noise_of(cell, users), float(cell.mute_probability), cell.stand_in
    lumps, rest = divmod(abs(total), cell.largest)
    direction = 1 if total >= 0 else -1
    first, masses = binomial_masses(lumps, q)
    lost = direction * (cell.largest - h) * (first + np.arange(len(masses), dtype=np.float64))
    if h:
        low_first, low_masses = binomial_masses(max(users - lumps, 0), q)
        gained = h * (low_first + np.arange(len(low_masses), dtype=np.float64))
        lost = np.subtract.outer(lost, gained).ravel()
        masses = np.outer(masses, low_masses).ravel()
    base = plain_sum + users * h - total + lost
    chance = float(masses @ noise.at_most(base))
    if not rest:
        return chance
    return (1 - q) * chance + q * float(masses @ noise.at_most(base + direction * rest))


def interval(
    cell: Cell, users: int, plain_sum: int, outside: float, near: tuple[int, int] | None = None
) -> tuple[int, int]:
    """The totals that explain S = plain_sum, each side missed with chance at most outside/2. The
    search begins `near` if that is given: it changes the time it takes, never what is found."""

    def not_too_low(total: int) -> bool:
        return 1 - chance_at_most(cell, users, total, plain_sum - 1) > outside / 2

    def too_high(total: int) -> bool:
        return chance_at_most(cell, users, total, plain_sum) <= outside / 2

    if near is None:
        middle = plain_sum / (1 - float(cell.mute_probability)) + users * cell.stand_in
        reach = _reach(cell, users, max(middle, 0.0), outside)
        near = round(middle - reach), round(middle + reach) - 1
    return first_true(not_too_low, near[0]), first_true(too_high, near[1] + 1) - 1


def _reach(cell: Cell, users: int, total: float, outside: float) -> float:
    """A normal guess at how far an interval's ends lie from its middle: where to start looking."""
    from statistics import NormalDist

    squares = cell.most_squares(users, Fraction(min(total, users * cell.largest)))
    error = to_float(lambda: cell.mean_squared_error(users, squares).sqrt())
    return -NormalDist().inv_cdf(outside / 2) * error


def intervals(
    cell: Cell, users: int, plain_sums: NDArray[np.int64], outside: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`interval` of many sums of like cells; equal sums are looked at once, and each begins where
    its neighbour's ended."""
    seen, places = np.unique(plain_sums, return_inverse=True)
    kept = 1 - float(cell.mute_probability)
    found: list[tuple[int, int]] = []
    for at, plain_sum in enumerate(seen.tolist()):
        step = round((plain_sum - seen[at - 1]) / kept) if at else 0
        near = (found[-1][0] + step, found[-1][1] + step) if at else None
        found.append(interval(cell, users, plain_sum, outside, near))
    ends = np.array(found, np.int64)
    return ends[places, 0], ends[places, 1]


def error_range(cell: Cell, users: int, total: int, outside: float) -> tuple[float, float]:
    """Between what errors the estimate lies, when the true sum is `total`, but for a chance of
    outside/2 on each side."""
    kept = 1 - float(cell.mute_probability)
    reach = _reach(cell, users, max(total, 0), outside)
    ends = []
    for level, side in ((outside / 2, -reach), (1 - outside / 2, reach)):
        start = round((total + side - users * cell.stand_in) * kept)
        end = first_true(lambda s, p=level: chance_at_most(cell, users, total, s) >= p, start)  # type: ignore[misc]
        ends.append(to_float(lambda end=end: cell.estimate(end, 0, users) - total))  # type: ignore[misc]
    return ends[0], ends[1]


def error_law(cell: Cell, users: int, total: int) -> tuple[Masses, Masses]:
    """The errors of the estimate and how likely each is, when the true sum is `total`."""
    low, high = error_range(cell, users, total, 1e-6)
    kept = 1 - float(cell.mute_probability)
    centre = to_float(lambda: cell.estimate(0, 0, users))
    first, last = (round((end + total - centre) * kept) for end in (low, high))
    sums = np.unique(np.linspace(first, last, min(last - first + 1, 801)).astype(np.int64))
    chances = np.array([chance_at_most(cell, users, total, int(s)) for s in sums])
    return centre + sums[1:] / kept - total, np.diff(chances)


def lattice_bins(places: Masses, width: float) -> Masses:
    """Edges of about this width that hold the same number of lattice points each."""
    step = float(np.median(np.diff(places)))
    group = max(1, round(width / step))
    start = places[0] - (group - 0.5) * step
    return np.arange(start, places[-1] + group * step, group * step)


def first_true(holds: Callable[[int], bool], start: int) -> int:
    """The least integer for which a condition holds that, once true, stays true."""
    step = 1
    if holds(start):
        low, high = start - 1, start
        while holds(low):
            low, high, step = low - step, low, 2 * step
    else:
        low, high = start, start + 1
        while not holds(high):
            low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
