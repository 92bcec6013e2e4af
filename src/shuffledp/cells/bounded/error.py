"""The true law of a bounded cell's error, for intervals (MATH §12). For reporting only, so floats
are enough.

S is the number of messages less z_d + w_d for each user; E = S − T is its error for a true sum T.
Users are independent, so E's characteristic function is a product of users' functions, each of
which depends on the user's value x alone; transformed back, it is the law of E on the integers (on
a lattice, where the law is very wide). Nothing here grows with the number of users.

With D = 1 the law depends on T alone: T users hold 1, the others 0. With larger D it depends on how
T is spread over the users, and the widest case in convex order is used (as many users as possible
have D, one has the remainder): for a convex g, E[g(S)] is, in two users' values, a constant plus
h(x₁) + h(x₂) with h convex.

An interval contains the T for which S is not an outlier (inversion of two one-sided tests). It is
not clipped to possible values: below 0 and above n·D the law is continued as if users could have
further multiples of D (−D, or 2D), so that a negative estimate has an interval, too.

Where the odds depend on the value (MATH §21), one user's law need not increase with the value: with
few users, a larger sum may make a large count less likely. Up to `FEW` users, every possible total
is checked, and the interval runs from the smallest to the largest that explains the count. A search
beyond them would also take long, because noise may be much wider than 0..n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.bisection import first_true
from shuffledp.numbers.exact import to_float
from shuffledp.numbers.finite import CutNegativeBinomial
from shuffledp.numbers.lattice import Complexes, Floats, Integers, interpolated

if TYPE_CHECKING:
    from shuffledp.cells.bounded.cell import BoundedCell, CutCell


FEWEST, MOST = 1 << 8, 1 << 16  # points of a law's lattice
REACH = 24.0  # standard deviations on each side of the mean: the rest is below 10⁻¹⁴
AT_ONCE = 1 << 20  # points of laws in memory at the same time
FURTHEST = 1 << 60  # no total further from 0 is tried
FEW = 64  # up to this many users, intervals may have gaps: every possible total is checked
SURE = 1e-9  # probabilities closer than this to a level are computed again


# one user's characteristic function


def noise_masses(law: CutNegativeBinomial) -> Floats:
    """P(Z = 0), P(Z = 1), … in floats."""
    j = np.arange(law.cut)
    weights = np.cumprod(np.append(1.0, float(law.beta) * (float(law.shape) + j) / (j + 1)))
    return np.asarray(weights / weights.sum())


def transform(masses: Floats, t: Floats) -> Complexes:
    """Σ_j masses[j]·e^(itj) for each t; fast where the t are multiples of their first step."""
    step = float(t[1] - t[0]) if len(t) > 1 else 0.0
    places = np.rint(t / step).astype(np.int64) if step else np.zeros(0, np.int64)
    if not step or not np.allclose(places * step, t, rtol=1e-12, atol=0):
        return np.asarray(np.exp(1j * np.outer(t, np.arange(len(masses)))) @ masses)
    found = _chirp(masses, step, int(np.abs(places).max()) + 1)[np.abs(places)]
    return np.asarray(np.where(places < 0, found.conj(), found))


def transform_off(masses: Floats, t: Floats) -> Complexes:
    """E[e^(itZ)] − 1 of a law with these masses, accurate where Z is mostly 0."""
    masses = masses.copy()
    masses[0] = 0.0
    return np.asarray(transform(masses, t) - masses.sum())


def _chirp(masses: Floats, step: float, count: int) -> Complexes:
    """Σ_j masses[j]·e^(ijk·step) for k = 0..count−1: with jk = (j² + k² − (k−j)²)/2 it is a
    convolution, for which fast transforms of any length do."""
    length = len(masses)
    size = 1 << (length + count - 1).bit_length()
    k = np.arange(max(length, count), dtype=np.float64)
    chirp = np.exp(0.5j * step * k * k)
    kernel = np.zeros(size, np.complex128)
    kernel[:count] = chirp[:count].conj()
    kernel[size - length + 1 :] = chirp[1:length][::-1].conj()
    spread = np.fft.fft(masses * chirp[:length], size) * np.fft.fft(kernel)
    return np.asarray(np.fft.ifft(spread)[:count] * chirp[:count])


class Frequencies:
    """Where E[e^(itX)] is computed: at frequencies t."""

    def __init__(self, t: Floats) -> None:
        self.t, self.argument = t, 1j * t

    def sums(self, weights: Floats, sign: int = 1) -> Complexes:
        """Σ_j weights[j]·e^(±itj)."""
        found = transform(weights, self.t)
        return found if sign > 0 else found.conj()

    def off(self, masses: Floats, sign: int = 1) -> Complexes:
        """E[e^(±itX)] − 1 of a law with these masses."""
        found = transform_off(masses, self.t)
        return found if sign > 0 else found.conj()


class Tilts:
    """Where E[e^(θX)] is computed: at real θ."""

    def __init__(self, theta: Floats) -> None:
        self.argument = theta

    def sums(self, weights: Floats, sign: int = 1) -> Floats:
        """Σ_j weights[j]·e^(±θj)."""
        return weighted(np.exp(np.outer(sign * self.argument, np.arange(len(weights)))), weights)

    def off(self, masses: Floats, sign: int = 1) -> Floats:
        """E[e^(±θX)] − 1 of a law with these masses."""
        return weighted(np.expm1(np.outer(sign * self.argument, np.arange(len(masses)))), masses)


Points = Frequencies | Tilts


class UserParts(NamedTuple):
    """What one user's v is made of, where a is it or θ: E[e^(a(v−x))] is 1 + noise + e^(−ax)·jumps
    − (1 − P)."""

    noise: Any
    """P·(E[e^(a(Z₊−Z₋))] − 1), of the data branch."""
    jumps: Any
    """The muted branches' E[e^(av)], each times its chance."""
    jumps_above: Any = None
    """The same for a user whose value is above 0, where the odds depend on the value."""

    def jumps_at(self, x: float | Floats) -> Any:
        """Those of users with the value x."""
        above = self.jumps_above is not None and np.all(np.asarray(x) > 0)
        return self.jumps_above if above else self.jumps


@dataclass(frozen=True, kw_only=True)
class UserFunction:
    """The characteristic function of one user's v, at the frequencies t."""

    t: Floats
    parts: UserParts
    muted: float

    def log(self, x: float | Floats) -> Complexes:
        """ln E[e^(it(v−x))], accurate even close to 0, because it is multiplied by the number of
        users."""
        parts = self.parts
        off = parts.noise + (np.exp(-1j * x * self.t) * parts.jumps_at(x) - self.muted)
        return log_above_one(off)


def log_above_one(off: Complexes) -> Complexes:
    """ln(1 + off), accurate even close to 0."""
    square = 2 * off.real + off.real**2 + off.imag**2  # |1 + off|² − 1
    size = np.log1p(np.maximum(square, -1 + 1e-15)) / 2
    return np.asarray(size + 1j * np.arctan2(off.imag, 1 + off.real))


def user_function(cell: CutCell, t: Floats) -> UserFunction:
    """The characteristic function of one user's v."""
    muted = float(1 - cell.data_probability)
    return UserFunction(t=t, parts=cell.user_parts(Frequencies(t)), muted=muted)


def log_user_moment(cell: CutCell, theta: Floats, x: int) -> Floats:
    """ln E[e^(θ(v−x))] of one user whose value is x."""
    parts, muted = cell.user_parts(Tilts(theta)), float(1 - cell.data_probability)
    return np.asarray(np.log1p(parts.noise + np.exp(-theta * x) * parts.jumps_at(x) - muted))


def user_parts(cell: BoundedCell, at: Points) -> UserParts:
    """What one user's v is made of."""
    kept = float(cell.data_probability)
    up, down = at.off(noise_masses(cell.up_noise)), at.off(noise_masses(cell.down_noise), -1)
    muted_up = at.off(noise_masses(cell.up_muted_noise))
    muted_down = at.off(noise_masses(cell.down_muted_noise), -1)

    def jumps(value: int) -> Any:
        ups, downs = (
            kept * np.append(0.0, [float(o) for o in odds]) for odds in cell.odds_at(value)
        )
        above = np.exp(at.argument * cell.up_jump(0)) * at.sums(ups) * (1 + muted_up) * (1 + down)
        below = np.exp(at.argument * cell.down_jump(0)) * at.sums(downs, -1)
        return above + below * (1 + up) * (1 + muted_down)

    noise = kept * (up + down + up * down)
    return UserParts(noise, jumps(0), jumps(1) if cell.by_value else None)


def shift_and_kept(cell: CutCell) -> tuple[float, float]:
    """By how much one user's noise and muting move the count on average, and what a value of 1 adds
    to it on average: the chance that a user sends its value, where the odds do not depend on it."""
    known = _moments(cell)
    return known.shift, known.kept


def log_characteristic(cell: CutCell, t: Floats, users: int, total: float) -> Complexes:
    """ln E[e^(it·error)] of the estimate, when as many users as possible have the value D."""
    known = _moments(cell)
    part = _function_at(cell, np.ascontiguousarray(t / known.kept).tobytes())
    total = min(max(total, 0.0), float(users * cell.largest))
    full = total / cell.largest
    logs = full * part.log(cell.largest) + (users - full) * part.log(0)
    return np.asarray(logs + 1j * part.t * (known.lost * total - users * known.shift))


@lru_cache(maxsize=16)
def _function_at(cell: CutCell, places: bytes) -> UserFunction:
    """`user_function`, cached: several totals of a cell need it at the same frequencies."""
    return cell.user_function(np.frombuffer(places))


# the law of E


class FloatMoments(NamedTuple):
    """`Moments` in floats."""

    shift: float
    kept: float
    lost: float
    slope: float
    spread: float


@lru_cache(maxsize=64)
def _moments(cell: CutCell) -> FloatMoments:
    names = FloatMoments._fields
    return FloatMoments(*(to_float(lambda n=n: getattr(cell.moments(), n)) for n in names))  # type: ignore[misc]


@lru_cache(maxsize=32)
def _grid(cell: CutCell, points: int, step: int) -> UserFunction:
    return cell.user_function(np.asarray(2 * np.pi / (points * step) * np.arange(points // 2 + 1)))


@lru_cache(maxsize=64)
def _log_user(cell: CutCell, points: int, step: int, x: int) -> Complexes:
    return _grid(cell, points, step).log(x)


@dataclass(frozen=True)
class Laws:
    """Laws of E, a row for each true sum: cumulative masses at first·step, (first+1)·step, …"""

    step: int
    first: Integers
    cumulative: Floats

    def at_most(self, errors: Integers) -> Floats:
        """P(E ≤ error) for the errors of each row, or one error per row."""
        columns = errors.reshape(len(self.first), -1)
        places = (columns + 0.5) / self.step - 0.5 - self.first[:, None]
        return interpolated(self.cumulative, places).reshape(errors.shape)

    def quantiles(self, level: float) -> Integers:
        """The least error of each row with P(E ≤ error) above the level, to about a step."""
        return np.asarray((self.first + (self.cumulative > level).argmax(axis=1)) * self.step)


def laws(cell: CutCell, users: int, totals: Integers) -> Laws:
    """The law of E for each true sum."""
    known = _moments(cell)
    full, rest = np.divmod(totals, cell.largest)
    level, above = np.divmod(full, users)  # `above` users hold (level+1)·D, the others level·D
    reached = (np.abs(level) + (above > 0)) * float(cell.largest)
    variance = known.spread + np.abs(known.slope) * reached
    variance = variance + known.kept * abs(known.lost) * reached**2
    deviation = math.sqrt(users * float(variance.max()))
    wanted = 2 * REACH * deviation + 2 * (cell.most_messages + float(reached.max())) + 64
    points = min(max(1 << math.ceil(math.log2(wanted)), FEWEST), MOST)
    step = max(1, math.ceil(wanted / points))

    mean = (users * known.shift - known.lost * totals) / step
    coarse = points // 16  # then the laws of similar cells start at the same point
    first = np.rint(mean / coarse).astype(np.int64) * coarse - points // 2
    turned = first[:1] if (first == first[0]).all() else first[:, None]
    logs = -2j * np.pi / points * (turned * np.arange(points // 2 + 1) % points)
    above, odd = above.astype(np.float64)[:, None], (rest > 0)[:, None]
    for here in np.unique(level).tolist():
        low = _log_user(cell, points, step, here * cell.largest)
        high = _log_user(cell, points, step, (here + 1) * cell.largest)
        logs = logs + (level == here)[:, None] * (users * low + above * (high - low) - odd * low)
    if odd.any():
        logs = logs + odd * _grid(cell, points, step).log((level * cell.largest + rest)[:, None])
    masses = np.fft.irfft(np.exp(logs).conj(), points, axis=1)
    return Laws(step, first, np.cumsum(masses, axis=1))


# intervals


def intervals(
    cell: CutCell, users: int, sums: Integers, outside: float
) -> tuple[Integers, Integers]:
    """The interval of true sums for each number of messages; equal numbers are computed once."""
    counts, places = np.unique(sums - cell.base * users, return_inverse=True)
    if cell.by_value and users <= FEW:
        low, high = _ends_among_possible(cell, users, counts, outside)
        return low[places], high[places]
    guessed = np.clip(cell.estimates(counts + cell.base * users, users), -FURTHEST, FURTHEST)
    middle = np.rint(guessed).astype(np.int64)
    width = laws(cell, users, middle[:1]).cumulative.shape[1]
    step = max(1, AT_ONCE // width)
    parts = [slice(begin, begin + step) for begin in range(0, len(counts), step)]
    ends = [_ends(cell, users, counts[part], middle[part], outside) for part in parts]
    low, high = (np.concatenate(side) for side in zip(*ends, strict=True))
    return low[places], high[places]


def _ends(
    cell: CutCell, users: int, counts: Integers, middle: Integers, outside: float
) -> tuple[Integers, Integers]:
    """The ends of the intervals for values of S.

    The law of E hardly changes along an interval: users with another value differ only if they are
    muted, so from one total to the next no probability changes by more than 1 − P. If the law at
    the estimate decides with that margin, the law at the end itself is not needed.
    """
    near = laws(cell, users, middle)
    # if all users may be muted at once, every total is possible: limit the intervals
    furthest = min(math.ceil(4 * users * cell.most_messages / cell.data_probability), FURTHEST)

    def above(level: float, totals: Integers, errors: Integers) -> NDArray[np.bool_]:
        """Whether P(E ≤ error) > level, for a total per number of messages."""
        chances = near.at_most(errors)
        change = np.abs(totals - middle) * float(1 - cell.data_probability)
        unsure = np.abs(chances - level) <= change + SURE
        if unsure.any():
            chances[unsure] = laws(cell, users, totals[unsure]).at_most(errors[unsure])
        return np.asarray(chances > level)

    def not_too_low(totals: Integers) -> NDArray[np.bool_]:
        inside = np.maximum(totals, -furthest)
        likely = ~above(1 - outside / 2, inside, counts - inside - 1)
        return np.asarray(likely & (totals >= -furthest))

    def too_high(totals: Integers) -> NDArray[np.bool_]:
        inside = np.minimum(totals, furthest)
        return ~above(outside / 2, inside, counts - inside) | (totals > furthest)

    low = first_true(not_too_low, counts - near.quantiles(1 - outside / 2))
    beyond = first_true(too_high, counts - near.quantiles(outside / 2) + 1)
    return low, beyond - 1


def _ends_among_possible(
    cell: CutCell, users: int, counts: Integers, outside: float
) -> tuple[Integers, Integers]:
    """The ends of the intervals for values of S if every total in 0..n is looked at; D = 1. The
    laws of all totals are computed once."""
    width = laws(cell, users, np.zeros(1, np.int64)).cumulative.shape[1]
    step = max(1, AT_ONCE // width)
    not_too_low, not_too_high = (np.zeros((users + 1, len(counts)), bool) for _ in range(2))
    for begin in range(0, users + 1, step):
        totals = np.arange(begin, min(begin + step, users + 1))
        part, known = slice(begin, begin + step), laws(cell, users, totals)
        errors = counts - totals[:, None]
        not_too_low[part] = known.at_most(errors - 1) <= 1 - outside / 2
        not_too_high[part] = known.at_most(errors) > outside / 2
    low = np.where(not_too_low.any(axis=0), not_too_low.argmax(axis=0), users)
    high = np.where(not_too_high.any(axis=0), users - not_too_high[::-1].argmax(axis=0), 0)
    return np.minimum(low, high), np.maximum(low, high)


def error_range(cell: CutCell, users: int, total: int, outside: float) -> tuple[float, float]:
    """The range of the estimate's error when the true sum is `total`, with probability outside/2
    left out on each side."""
    law = laws(cell, users, np.array([total]))
    errors, chances = _support(law)
    low, high = (
        int(errors[(chances >= level).argmax()]) for level in (outside / 2, 1 - outside / 2)
    )
    found = _as_errors(cell, users, total, np.array([low, high]))
    return float(found[0]), float(found[1])


def error_law(cell: CutCell, users: int, total: int) -> tuple[Floats, Floats]:
    """The errors of the estimate and how likely each is, when the true sum is `total`."""
    law = laws(cell, users, np.array([total]))
    errors, chances = _support(law)
    inside = np.flatnonzero((chances > 1e-7) & (chances < 1 - 1e-7))
    if not inside.size:  # almost always the same error
        inside = np.array([(chances > 0.5).argmax()])
    first, last = errors[inside[0]], errors[inside[-1]] + law.step
    shown = np.unique(np.linspace(first - law.step, last, min(last - first + 2, 801)).astype(int))
    masses = np.diff(law.at_most(shown[None, :])[0])
    return _as_errors(cell, users, total, shown[1:]), masses


def _support(law: Laws) -> tuple[Integers, Floats]:
    """The lattice of a single law, and the cumulative masses."""
    errors = (law.first[0] + np.arange(law.cumulative.shape[1])) * law.step
    return errors, law.cumulative[0]


def _as_errors(cell: CutCell, users: int, total: int, errors: Integers) -> Floats:
    """Errors E of the count as errors of the estimate."""
    known = _moments(cell)
    return np.asarray((errors + (known.lost * total - users * known.shift)) / known.kept)


def log_moment(cell: CutCell, theta: Floats, users: int, total: float) -> Floats:
    """ln E[e^(θ·error)] when as many users as possible have the value D: the real counterpart of
    `log_characteristic`, from the same parts."""
    known = _moments(cell)
    scaled = theta / known.kept
    full = total / cell.largest
    high, low = (cell.log_user_moment(scaled, x) for x in (cell.largest, 0))
    logs = full * high + (users - full) * low
    return np.asarray(logs + scaled * (known.lost * total - users * known.shift))


def weighted(values: Floats, weights: Floats) -> Floats:
    """The weighted sum of each row; not as a matrix product, for which NumPy may start threads that
    wait for each other on a busy machine."""
    return np.asarray((values * weights).sum(axis=1))
