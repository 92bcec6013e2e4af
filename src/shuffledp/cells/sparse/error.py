"""The exact law of a bucket's tokens, and intervals by inverting it.

For reporting only, so floats are enough. V is the number of tokens in a bucket that f of the users
have. Users are independent, so V's characteristic function is a product of two users' functions,
one for holders and one for the others; transformed back, it is the law of V on the integers (on a
lattice, where the law is very wide). Jumps are part of it. Nothing here grows with the number of
users.

An interval contains the f for which V is not an outlier (inversion of two one-sided tests). It is
not clipped to possible values: below 0 and above the number of users the law is continued as if
users could have the bucket −1, or 2, … times, so that a negative estimate has an interval, too.
Chances below `LEAST_CHANCE` are too small for the transform; Chernoff's bound, which is larger,
replaces them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.bounded.error import log_above_one
from shuffledp.cells.sparse.law import BucketLaw, bucket_law
from shuffledp.numbers.bisection import first_true
from shuffledp.numbers.lattice import Complexes, Floats, Integers, interpolated

if TYPE_CHECKING:
    from shuffledp.cells.sparse.cell import UrnCell

FEWEST, MOST = 1 << 8, 1 << 16  # points of a law's lattice
REACH = 14.0  # standard deviations on each side of the mean …
MORE_JUMPS = 10  # … and as many jumps into one bucket: the rest is below 10⁻¹⁵
SHARED_STARTS = 32  # the number of lattice points at which laws may start
AT_ONCE = 1 << 20  # points of laws in memory at the same time
LEAST_CHANCE = 1e-11
TILTS, LARGEST_TILT = 400, 60.0


def _off(law: BucketLaw, argument: NDArray[Any], x: float) -> NDArray[Any]:
    """E[e^(a·tokens)] − 1 of a user that holds the bucket x times, exactly near a = 0."""
    one = np.expm1(argument)
    power = noise = jumped = np.zeros_like(one)  # the first is e^(ka) − 1
    for tokens in range(1, law.most + 1):
        power = power + one + power * one
        jumped = jumped + law.jumped[tokens] * power
        if tokens < law.most:
            noise = noise + law.noise[tokens] * power
    value = np.expm1(x * argument)
    kept = value + noise + value * noise
    return np.asarray(law.data * kept + law.muted * noise + law.jump * jumped)


def _log_user(law: BucketLaw, t: NDArray[Any], x: float) -> Complexes:
    """ln E[e^(it·tokens)] of such a user, accurate even close to 0, because it is multiplied by the
    number of users."""
    return log_above_one(_off(law, 1j * t, x))


@lru_cache(maxsize=64)
def _logs_on_grid(law: BucketLaw, points: int, step: int, x: int) -> Complexes:
    return _log_user(law, 2 * np.pi / (points * step) * np.arange(points // 2 + 1), x)


# The law of V


@dataclass(frozen=True)
class Laws:
    """Laws of V, a row for each true count: masses at first·step, (first+1)·step, …"""

    step: int
    first: Integers
    masses: Floats

    def at_most(self, counts: Integers) -> Floats:
        """P(V ≤ count), one count per row."""
        places = (counts + 0.5) / self.step - 0.5 - self.first
        return interpolated(np.cumsum(self.masses, axis=1), places[:, None])[:, 0]

    def at_least(self, counts: Integers) -> Floats:
        """P(V ≥ count), one count per row, added up from the far end."""
        above = np.cumsum(self.masses[:, ::-1], axis=1)
        last = self.first + self.masses.shape[1] - 1
        places = last - ((counts - 0.5) / self.step + 0.5)
        return interpolated(above, places[:, None])[:, 0]


def _deviations(law: BucketLaw, users: int, totals: Integers) -> Floats:
    """The standard deviation of V for each true count, a little too large outside 0..users."""
    level, above = np.divmod(totals, users)
    held = np.abs(level) + (above > 0)
    once = law.variance_with - law.variance
    slope = np.where((level == 0) | (totals == users), once * totals, users * held**2 * abs(once))
    return np.asarray(np.sqrt(np.maximum(users * law.variance + slope, 0.0)))


def _points(law: BucketLaw, deviations: Floats) -> Integers:
    """How many points the law of each deviation needs: a power of two."""
    wanted = 2 * (REACH * deviations + MORE_JUMPS * law.most) + 64
    return np.asarray(2 ** np.ceil(np.log2(np.maximum(wanted, FEWEST))), np.int64)


def laws(law: BucketLaw, users: int, totals: Integers) -> Laws:
    """The law of V for each true count."""
    width = int(_points(law, _deviations(law, users, totals)).max())
    points, step = min(width, MOST), max(1, width // MOST)
    mean = (users * law.mean + law.data * totals) / step
    coarse = points // SHARED_STARTS
    first = np.rint(mean / coarse).astype(np.int64) * coarse - points // 2
    level, above = np.divmod(totals, users)
    masses = np.empty((len(totals), points))
    for here, turned in {*zip(level.tolist(), (first % points).tolist(), strict=True)}:
        low, high = (_logs_on_grid(law, points, step, x) for x in (here, here + 1))
        rows = np.flatnonzero((level == here) & (first % points == turned))
        logs = users * low + above[rows, None].astype(np.float64) * (high - low)
        found = np.fft.irfft(np.exp(logs).conj(), points, axis=1)
        masses[rows] = np.roll(found, -turned, axis=1)
    return Laws(step, first, masses)


def at_most(law: BucketLaw, users: int, totals: Integers, counts: Integers) -> Floats:
    """P(V ≤ count) for pairs of a true count and a number of tokens."""
    return _in_parts(law, users, totals, counts, Laws.at_most)


def at_least(law: BucketLaw, users: int, totals: Integers, counts: Integers) -> Floats:
    """P(V ≥ count) for pairs of a true count and a number of tokens."""
    return _in_parts(law, users, totals, counts, Laws.at_least)


Chances = Callable[[Integers, Integers], Floats]


def _remembered(chances: Chances) -> Chances:
    """Tail probabilities for pairs of a true count and a number of tokens. Each row keeps its
    number of tokens; only rows whose true count changed since the last call are computed again."""
    last: tuple[Integers, Floats] | None = None

    def found(totals: Integers, counts: Integers) -> Floats:
        nonlocal last
        if last is None:
            last = totals, chances(totals, counts)
            return last[1]
        new = np.flatnonzero(totals != last[0])
        known = last[1].copy()
        if new.size:
            known[new] = chances(totals[new], counts[new])
        last = totals, known
        return known

    return found


def _in_parts(
    law: BucketLaw,
    users: int,
    totals: Integers,
    counts: Integers,
    side: Callable[[Laws, Integers], Floats],
) -> Floats:
    """A side of the law of each pair; pairs whose laws are about equally wide go together."""
    totals, counts = np.broadcast_arrays(np.asarray(totals, np.int64), np.asarray(counts, np.int64))
    found = np.empty(len(totals))
    widths = _points(law, _deviations(law, users, totals))
    for width in np.unique(widths).tolist():
        rows = np.flatnonzero(widths == width)
        step = max(1, AT_ONCE // min(width, MOST))
        for begin in range(0, rows.size, step):
            part = rows[begin : begin + step]
            found[part] = side(laws(law, users, totals[part]), counts[part])
    return found


# Chernoff's bound


@lru_cache(maxsize=16)
def _tilted(law: BucketLaw, x: int, sign: int) -> tuple[Floats, Floats]:
    """(θ, ln E[e^(±θ·tokens)]) of a user that holds the bucket x times."""
    theta = np.geomspace(1e-7, LARGEST_TILT / (law.most + 1), TILTS)
    with np.errstate(over="ignore"):
        return theta, np.log1p(np.asarray(_off(law, sign * theta, x)))


def chernoff(law: BucketLaw, users: int, totals: Integers, counts: Integers, sign: int) -> Floats:
    """At least P(V ≥ count) with the sign +1, at least P(V ≤ count) with −1."""
    found = np.empty(len(totals))
    level, above = np.divmod(totals, users)
    for here in np.unique(level).tolist():
        rows = level == here
        (theta, low), (_, high) = (_tilted(law, x, sign) for x in (here, here + 1))
        held = above[rows, None].astype(np.float64)
        logs = users * low + held * (high - low) - sign * theta * counts[rows, None]
        found[rows] = np.exp(np.minimum(logs.min(axis=1), 0.0))
    return found


# Intervals


def intervals(
    cell: UrnCell, users: int, sums: Integers, outside: float, copies: int = 1
) -> tuple[Integers, Integers]:
    """The interval of true counts for each number of tokens in a bucket, or in several together;
    equal numbers are computed once."""
    law = bucket_law(cell, copies)
    counts, places = np.unique(np.asarray(sums, np.int64), return_inverse=True)
    level = outside / 2

    @_remembered
    def low_tail(totals: Integers, counts: Integers) -> Floats:
        if level < LEAST_CHANCE:
            return chernoff(law, users, totals, counts, -1)
        return at_most(law, users, totals, counts)

    @_remembered
    def high_tail(totals: Integers, counts: Integers) -> Floats:
        if level < LEAST_CHANCE:
            return chernoff(law, users, totals, counts, 1)
        return at_least(law, users, totals, counts)

    first, last = _guessed_ends(law, users, counts, level)
    # if everyone may be muted, every count is possible, or none explains many tokens
    furthest = 4 * users * (law.most + 1) + 4

    def not_too_low(totals: Integers) -> NDArray[np.bool_]:
        inside = np.clip(totals, -furthest, furthest)
        likely = (high_tail(inside, counts) > level) | (totals > furthest)
        return np.asarray(likely & (totals >= -furthest))

    def too_high(totals: Integers) -> NDArray[np.bool_]:
        inside = np.clip(totals, -furthest, furthest)
        unlikely = (low_tail(inside, counts) <= level) & (totals >= -furthest)
        return np.asarray(unlikely | (totals > furthest))

    low = first_true(not_too_low, first)
    high = first_true(too_high, last + 1) - 1
    low, high = np.minimum(low, high), np.maximum(low, high)  # if no count explains the tokens
    return low[places], high[places]


def _guessed_ends(
    law: BucketLaw, users: int, counts: Integers, level: float
) -> tuple[Integers, Integers]:
    """Where the intervals would end if V were normal: (y − p·f)² = z²·(a + b·f)."""
    z = -NormalDist().inv_cdf(max(level, 1e-300))
    y = counts - users * law.mean
    a, b = users * law.variance, law.variance_with - law.variance
    half = z * z * b / (2 * law.data**2)
    centre = y / law.data + half
    inside = np.maximum(half**2 + z * z * (a + b * np.maximum(y, 0) / law.data) / law.data**2, 0.0)
    reach = np.sqrt(inside) + 0.5 / law.data
    low, high = (np.rint(end).astype(np.int64) for end in (centre - reach, centre + reach))
    return low, high


# Errors of the estimate


def error_range(
    cell: UrnCell, users: int, total: int, outside: float, copies: int = 1
) -> tuple[float, float]:
    """The range of the estimate's error, with probability outside/2 left out on each side."""
    errors, masses = _errors(bucket_law(cell, copies), users, total)
    below = np.cumsum(masses)
    low = errors[(below > outside / 2).argmax()]
    high = errors[(below >= 1 - outside / 2).argmax()]
    return float(low), float(high)


def error_law(cell: UrnCell, users: int, total: int) -> tuple[Floats, Floats]:
    """The errors of the estimate and how likely each is; at most 801 points."""
    errors, masses = _errors(cell.bucket_law, users, total)
    below = np.cumsum(masses)
    inside = np.flatnonzero((below > 1e-7) & (below < 1 - 1e-7))
    if not inside.size:  # almost always the same error
        inside = np.array([(below > 0.5).argmax()])
    first, last = int(inside[0]), min(int(inside[-1]) + 1, len(below) - 1)
    shown = np.unique(np.linspace(first, last, min(last - first + 1, 801)).astype(int))
    return errors[shown], np.diff(below[shown], prepend=below[first - 1] if first else 0.0)


def _errors(law: BucketLaw, users: int, total: int) -> tuple[Floats, Floats]:
    known = laws(law, users, np.array([total]))
    tokens = (known.first[0] + np.arange(known.masses.shape[1])) * known.step
    return (tokens - users * law.mean) / law.data - total, known.masses[0]


def log_characteristic(cell: UrnCell, t: Floats, users: int, total: float) -> Complexes:
    """ln E[e^(it·error)] of the estimate."""
    law = cell.bucket_law
    scaled = t / law.data
    logs = total * _log_user(law, scaled, 1) + (users - total) * _log_user(law, scaled, 0)
    return np.asarray(logs - 1j * scaled * (users * law.mean + law.data * total))


def log_moment(cell: UrnCell, theta: Floats, users: int, total: float) -> Floats:
    """ln E[e^(θ·error)] of the estimate."""
    law = cell.bucket_law
    scaled = np.asarray(theta, np.float64) / law.data
    with np.errstate(over="ignore"):
        held, not_held = (np.log1p(np.asarray(_off(law, scaled, x))) for x in (1, 0))
    logs = total * held + (users - total) * not_held
    return np.asarray(logs - scaled * (users * law.mean + law.data * total))
