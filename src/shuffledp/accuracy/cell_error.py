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
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.paper import Cell
from shuffledp.exact.numbers import to_float

Masses = NDArray[np.float64]
Integers = NDArray[np.int64]

POINTS = 1 << 16  # of a noise law's lattice
REACH = 24.0  # standard deviations on each side of the mean: the rest is below 10⁻¹⁴
AT_ONCE = 1 << 20  # masses of binomial laws held at the same time


def binomial_masses(trials: Integers, probability: float) -> tuple[Integers, Masses]:
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


def chances_at_most(
    cell: Cell, users: int, totals: Integers, plain_sums: Integers
) -> NDArray[np.float64]:
    """P(S ≤ plain sum) for every true sum and plain sum, in pairs, or one of either with all."""
    pairs = np.broadcast(totals, plain_sums).size
    width = _width(cell, int(np.abs(totals).max())) * (_width(cell, users) if cell.stand_in else 1)
    step = max(1, int(AT_ONCE / width))
    if pairs <= step:
        return _chances(cell, users, totals, plain_sums)
    totals, plain_sums = np.broadcast_arrays(totals, plain_sums)
    parts = [slice(begin, begin + step) for begin in range(0, pairs, step)]
    return np.concatenate([_chances(cell, users, totals[p], plain_sums[p]) for p in parts])


def _width(cell: Cell, trials: int) -> float:
    """About how many masses stand for the muted among so many."""
    return 80 + 20 * math.sqrt(trials * float(cell.mute_probability))


def _chances(cell: Cell, users: int, totals: Integers, plain_sums: Integers) -> NDArray[np.float64]:
    noise, q, h = noise_of(cell, users), float(cell.mute_probability), cell.stand_in
    lumps, rest = np.divmod(np.abs(totals), cell.largest)
    direction = np.where(totals >= 0, 1, -1)
    first, masses = binomial_masses(lumps, q)
    lost = (direction * (cell.largest - h))[:, None] * (first[:, None] + np.arange(masses.shape[1]))
    if h:
        low_first, low_masses = binomial_masses(np.maximum(users - lumps - (rest > 0), 0), q)
        gained = h * (low_first[:, None] + np.arange(low_masses.shape[1]))
        lost = (lost[:, :, None] - gained[:, None, :]).reshape(len(lost), -1)
        masses = (masses[:, :, None] * low_masses[:, None, :]).reshape(len(masses), -1)
    base = (plain_sums + users * h - totals)[:, None] + lost
    chances = (masses * noise.at_most(base)).sum(axis=1)
    if rest.any():
        muted_rest = np.where(rest > 0, direction * rest - h, 0)
        others = noise.at_most(base + muted_rest[:, None])
        chances = (1 - q) * chances + q * (masses * others).sum(axis=1)
    return np.asarray(chances)


def interval(cell: Cell, users: int, plain_sum: int, outside: float) -> tuple[int, int]:
    """The totals that explain S = plain_sum, each side missed with chance at most outside/2."""
    low, high = intervals(cell, users, np.array([plain_sum]), outside)
    return int(low[0]), int(high[0])


def intervals(
    cell: Cell, users: int, plain_sums: Integers, outside: float
) -> tuple[Integers, Integers]:
    """`interval` of many sums of like cells, side by side; equal sums are looked at once."""
    sums, places = np.unique(plain_sums, return_inverse=True)

    def not_too_low(totals: Integers) -> NDArray[np.bool_]:
        return np.asarray(1 - chances_at_most(cell, users, totals, sums - 1) > outside / 2)

    def too_high(totals: Integers) -> NDArray[np.bool_]:
        return np.asarray(chances_at_most(cell, users, totals, sums) <= outside / 2)

    middle = sums / (1 - float(cell.mute_probability)) + users * cell.stand_in
    reach = _reach(cell, users, middle, outside)
    low = first_true(not_too_low, np.rint(middle - reach).astype(np.int64))
    high = first_true(too_high, np.rint(middle + reach).astype(np.int64)) - 1
    return low[places], high[places]


def _reach(cell: Cell, users: int, totals: NDArray[np.float64], outside: float) -> Masses:
    """A normal guess at how far intervals' ends lie from their middles: where to start looking."""
    from statistics import NormalDist

    most = users * cell.largest
    ends = [
        to_float(lambda t=t: cell.mean_squared_error(users, cell.most_squares(users, t)))  # type: ignore[misc]
        for t in (0, most)
    ]
    squares = ends[0] + (ends[1] - ends[0]) * np.clip(totals, 0, most) / most
    return np.asarray(-NormalDist().inv_cdf(outside / 2) * np.sqrt(squares))


def error_range(cell: Cell, users: int, total: int, outside: float) -> tuple[float, float]:
    """Between what errors the estimate lies, when the true sum is `total`, but for a chance of
    outside/2 on each side."""
    kept = 1 - float(cell.mute_probability)
    totals, levels = np.array([total]), np.array([outside / 2, 1 - outside / 2])
    reach = _reach(cell, users, np.array([total, total]), outside) * [-1, 1]
    start = np.rint((total + reach - users * cell.stand_in) * kept).astype(np.int64)
    ends = first_true(lambda sums: chances_at_most(cell, users, totals, sums) >= levels, start)
    low, high = (
        to_float(lambda end=end: cell.estimate(end, 0, users) - total)  # type: ignore[misc]
        for end in ends.tolist()
    )
    return low, high


def error_law(cell: Cell, users: int, total: int) -> tuple[Masses, Masses]:
    """The errors of the estimate and how likely each is, when the true sum is `total`."""
    low, high = error_range(cell, users, total, 1e-6)
    kept = 1 - float(cell.mute_probability)
    centre = to_float(lambda: cell.estimate(0, 0, users))
    first, last = (round((end + total - centre) * kept) for end in (low, high))
    sums = np.unique(np.linspace(first, last, min(last - first + 1, 801)).astype(np.int64))
    chances = chances_at_most(cell, users, np.array([total]), sums)
    return centre + sums[1:] / kept - total, np.diff(chances)


def lattice_bins(places: Masses, width: float) -> Masses:
    """Edges of about this width that hold the same number of lattice points each."""
    step = float(np.median(np.diff(places)))
    group = max(1, round(width / step))
    start = places[0] - (group - 0.5) * step
    return np.arange(start, places[-1] + group * step, group * step)


def first_true(holds: Callable[[Integers], NDArray[np.bool_]], start: Integers) -> Integers:
    """The least integers for which conditions hold that, once true, stay true; looked for from
    `start` on, all side by side."""
    at_start = holds(start)
    low, high = np.where(at_start, start - 1, start), np.where(at_start, start, start + 1)
    step = np.ones_like(start)
    while (open_ends := np.where(at_start, holds(low), ~holds(high))).any():
        down, up = open_ends & at_start, open_ends & ~at_start
        low, high = (
            np.where(up, high, np.where(down, low - step, low)),
            np.where(down, low, np.where(up, high + step, high)),
        )
        step = np.where(open_ends, 2 * step, step)
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        found = holds(middle)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return high
