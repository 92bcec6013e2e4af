"""The error distribution of the paper's cell, for its intervals (MATH §4).

Floats, for reporting.

For a true sum T the difference V₊ − V₋ is S = T − n·h − (what the muted users have above h) +
z_plus − z_minus. With D = 1 the muted part is Bin(T, q) exactly; with larger D it depends on how T
is spread over the users, and the widest case in convex order is used: as many users as possible
have the value D. An interval contains the T for which S is not an outlier (inversion of two
one-sided tests). It is not clipped to possible values: below 0 the law is continued by symmetry, so
that a negative estimate has an interval, too.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.bisection import first_true
from shuffledp.numbers.exact import to_float
from shuffledp.numbers.lattice import (
    Complexes,
    Floats,
    Integers,
    LatticeLaw,
    binomial_masses,
    lattice_law,
    log_negative_binomial,
)

if TYPE_CHECKING:
    from shuffledp.cells.paper.cell import PaperCell

MASSES_AT_ONCE = 1 << 20


@lru_cache(maxsize=64)
def noise_of(cell: PaperCell, users: int) -> LatticeLaw:
    """The law of z_plus − z_minus, summed over `users` users."""
    up, down = float(cell.plus_noise.decay), float(cell.minus_noise.decay)
    shape = users / cell.users
    spread = math.sqrt(
        shape * (math.exp(-up) / math.expm1(-up) ** 2 + math.exp(-down) / math.expm1(-down) ** 2)
    )
    mean = shape * (1 / math.expm1(up) - 1 / math.expm1(down))
    return lattice_law(
        lambda t: log_negative_binomial(shape, up, t) + log_negative_binomial(shape, down, -t),
        mean,
        spread,
    )


def chances_at_most(
    cell: PaperCell, users: int, totals: Integers, sums: Integers
) -> NDArray[np.float64]:
    """P(S ≤ difference) for pairs of a true sum and a difference; either may be a single number."""
    pairs = np.broadcast(totals, sums).size
    width = _width(cell, int(np.abs(totals).max())) * (_width(cell, users) if cell.stand_in else 1)
    step = max(1, int(MASSES_AT_ONCE / width))
    if pairs <= step:
        return _chances(cell, users, totals, sums)
    totals, sums = np.broadcast_arrays(totals, sums)
    parts = [slice(begin, begin + step) for begin in range(0, pairs, step)]
    return np.concatenate([_chances(cell, users, totals[p], sums[p]) for p in parts])


def _width(cell: PaperCell, trials: int) -> float:
    """About how many point masses the law of the number of muted users has."""
    return 80 + 20 * math.sqrt(trials * float(cell.mute_probability))


def _chances(cell: PaperCell, users: int, totals: Integers, sums: Integers) -> NDArray[np.float64]:
    noise, q, h = noise_of(cell, users), float(cell.mute_probability), cell.stand_in
    full, rest = np.divmod(np.abs(totals), cell.largest)
    direction = np.where(totals >= 0, 1, -1)
    first, masses = binomial_masses(full, q)
    lost = (direction * (cell.largest - h))[:, None] * (first[:, None] + np.arange(masses.shape[1]))
    if h:
        low_first, low_masses = binomial_masses(np.maximum(users - full - (rest > 0), 0), q)
        gained = h * (low_first[:, None] + np.arange(low_masses.shape[1]))
        lost = (lost[:, :, None] - gained[:, None, :]).reshape(len(lost), -1)
        masses = (masses[:, :, None] * low_masses[:, None, :]).reshape(len(masses), -1)
    base = (sums + users * h - totals)[:, None] + lost
    chances = (masses * noise.at_most(base)).sum(axis=1)
    if rest.any():
        muted_rest = np.where(rest > 0, direction * rest - h, 0)
        others = noise.at_most(base + muted_rest[:, None])
        chances = (1 - q) * chances + q * (masses * others).sum(axis=1)
    return np.asarray(chances)


def intervals(
    cell: PaperCell, users: int, sums: Integers, outside: float
) -> tuple[Integers, Integers]:
    """The true sums that explain each difference; see `Cell.intervals`. Equal differences are
    computed once."""
    known, places = np.unique(sums, return_inverse=True)
    middle = known / (1 - float(cell.mute_probability)) + users * cell.stand_in
    reach = _reach(cell, users, middle, outside)

    def not_too_low(totals: Integers) -> NDArray[np.bool_]:
        return np.asarray(1 - chances_at_most(cell, users, totals, known - 1) > outside / 2)

    def too_high(totals: Integers) -> NDArray[np.bool_]:
        return np.asarray(chances_at_most(cell, users, totals, known) <= outside / 2)

    low = first_true(not_too_low, np.rint(middle - reach).astype(np.int64))
    high = first_true(too_high, np.rint(middle + reach).astype(np.int64)) - 1
    return low[places], high[places]


def _reach(cell: PaperCell, users: int, totals: Floats, outside: float) -> Floats:
    """Half the width of an interval if the error were normal."""
    most = users * cell.largest
    ends = [to_float(lambda t=t: cell.mean_squared_error(users, t)) for t in (0, most)]  # type: ignore[misc]
    variances = ends[0] + (ends[1] - ends[0]) * np.clip(totals, 0, most) / most
    return np.asarray(-NormalDist().inv_cdf(outside / 2) * np.sqrt(variances))


def error_range(cell: PaperCell, users: int, total: int, outside: float) -> tuple[float, float]:
    """The range of the estimate's error; see `Cell.error_range`."""
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


def error_law(cell: PaperCell, users: int, total: int) -> tuple[Floats, Floats]:
    """Errors and how likely each is; see `Cell.error_law`."""
    low, high = error_range(cell, users, total, 1e-6)
    kept = 1 - float(cell.mute_probability)
    centre = to_float(lambda: cell.estimate(0, 0, users))
    first, last = (round((end + total - centre) * kept) for end in (low, high))
    sums = np.unique(np.linspace(first, last, min(last - first + 1, 801)).astype(np.int64))
    chances = chances_at_most(cell, users, np.array([total]), sums)
    return centre + sums[1:] / kept - total, np.diff(chances)


def log_error(cell: PaperCell, t: Floats, users: int, total: float) -> Complexes:
    """ln E[e^(it·error)] of the estimate; as many users as possible have the value D."""
    shape, q = users / cell.users, float(cell.mute_probability)
    scaled = t / (1 - q)
    noise = log_negative_binomial(shape, float(cell.plus_noise.decay), scaled)
    noise = noise + log_negative_binomial(shape, float(cell.minus_noise.decay), -scaled)
    centre = to_float(lambda: cell.plus_noise.mean() - cell.minus_noise.mean()) * shape
    h, full = cell.stand_in, total / cell.largest
    muted = full * np.log1p(q * np.expm1(-1j * scaled * (cell.largest - h)))
    muted = muted + (users - full) * np.log1p(q * np.expm1(1j * scaled * h))
    lost = q * (total - users * h)
    return np.asarray(noise + muted + 1j * scaled * (lost - centre))


def log_moment(cell: PaperCell, theta: Floats, users: int, total: float) -> Floats:
    """ln E[e^(θ·error)] of the estimate; NaN where the expectation is not finite."""
    found = log_error(cell, -1j * theta, users, total)  # type: ignore[arg-type]
    return _real(found)


def minus_moment(cell: PaperCell, theta: Floats, reports: int, absent: int) -> Floats:
    """ln E[e^(θ·X)] where X is V₋ less its mean; see `PaperCell.minus_law`."""
    share, held = (reports + absent) / cell.users, cell.input_pairs + cell.stand_in
    q = float(cell.mute_probability)
    muted = reports * (np.log1p(q * np.expm1(-theta * held)) + theta * held)
    noise = log_negative_binomial(share, float(cell.minus_noise.decay), -1j * theta)  # type: ignore[arg-type]
    flood = share * float(cell.flood_mean) * np.expm1(theta)
    return _real(noise + muted + flood) - theta * cell.minus_law(reports, absent)[0]


def _real(logs: Complexes) -> Floats:
    """Logarithms of positive numbers; NaN for others, where the series of the moment diverges."""
    return np.where(np.abs(logs.imag) < 1e-6, logs.real, np.nan)
