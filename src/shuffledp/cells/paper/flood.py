"""The smallest flood that makes a cell private, and the limit that no flood can beat.

Where g_δ of the certificate just touches 1 at its minimum, g = 1 and g′ = 0 together give λ as a
function of the place m, and one equation in m is left:

    w + t = 1,   w·S = t·P      (w the muted term, t the data term; S = ψ(m+s+1) − ψ(m+1),
                                 P = ψ(m+1) − ψ(m−δ+1))
    λ^δ = e^(L−bδ/D) (m)_δ (S+P)/S,      ln K + s ln λ + ln m! − ln (m+s)! = ln P/(S+P)

All of this is in floats, vectorised over grids of (b, q, s). It only proposes; the certificate
decides.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.proof import tightest
from shuffledp.errors import CertificateError, PlanningError
from shuffledp.numbers.bisection import bisect_arrays
from shuffledp.numbers.exact import round_to
from shuffledp.numbers.lattice import Floats
from shuffledp.numbers.message_law import OVERFLOW_BITS

Shape = tuple[int, int]
"""A cell's largest value D and its stand-in h."""

SHIFT = 3
STEPS = 34  # halvings of ln m between −30 and 40: about 9 digits


def shifts(largest: int) -> set[int]:
    """The changes δ to check while proposing. δ = D is the tightest if there are at least D pairs,
    and δ = 1 matters for small floods. The certificate checks all of them; with fewer pairs one in
    between may fail (s = 1, D = 4, δ = 2), and then more pairs are tried."""
    return {1, largest}


def log_terms(
    shift: int, shape: Shape, up: Floats, down: Floats, loss: Floats, odds: Floats
) -> tuple[Floats, Floats]:
    """ln K and ln E: the weights of the muted term and of the data term, at the worse of the two
    lower values that the certificate looks at (both with s pairs: a slightly cautious proposal)."""
    largest, stand_in = shape
    low = largest - shift
    fade = np.maximum(up * max(low - stand_in, 0) + down * max(stand_in - low, 0), down * stand_in)
    log_k = np.log(np.expm1(loss) * odds) - fade / largest
    return log_k, loss - down * shift / largest


def reaches_limit(shift: int, log_k: Floats, log_e: Floats, pairs: Floats) -> Floats:
    """Positive if some flood, however large, is enough (MATH §3, for any δ)."""
    free = log_k + np.log(pairs / shift) - log_e
    inner = log_e + shift / (pairs + shift) * free + np.log1p(shift / pairs)
    at_one = np.log(np.exp(np.minimum(log_k, 700.0)) + np.exp(log_e))
    return np.where(free > 0, at_one, inner)


def least_flood(
    shape: Shape, up: Floats, down: Floats, loss: Floats, odds: Floats, pairs: Floats
) -> Floats:
    """The least λ that is private; ∞ if no flood is enough. All arguments have the same shape."""
    flood = np.zeros_like(pairs)
    for shift in shifts(shape[0]):
        log_k, log_e = log_terms(shift, shape, up, down, loss, odds)
        edge = _edge(shift, log_k, log_e, pairs)
        possible = reaches_limit(shift, log_k, log_e, pairs) > 1e-12
        flood = np.maximum(flood, np.where(possible, edge, np.inf))
    return flood


def _edge(shift: int, log_k: Floats, log_e: Floats, pairs: Floats) -> Floats:

    def enough(position: Floats) -> NDArray[np.bool_]:
        return np.asarray(~(_touch(shift, log_k, log_e, pairs, position)[0] < 0))

    ends = np.full_like(pairs, -30.0), np.full_like(pairs, 40.0)
    high = bisect_arrays(enough, *ends, steps=STEPS)
    _, log_flood = _touch(shift, log_k, log_e, pairs, high)
    # below m = δ − 1 the data term vanishes: there the muted term must carry alone
    alone = (log_gamma_rise(np.full_like(pairs, shift), pairs) - log_k) / pairs
    return np.asarray(np.exp(np.maximum(log_flood, np.where(shift > 1, alone, -np.inf))))


def _touch(
    shift: int, log_k: Floats, log_e: Floats, pairs: Floats, position: Floats
) -> tuple[Floats, Floats]:
    """How far the muted term exceeds what touching at m = δ−1+e^position needs; and ln λ there."""
    above = np.exp(position)
    m = above + (shift - 1)
    s = digamma_rise(m + 1, pairs)
    if shift == 1:  # (m)_1 = m; spelled out because most plans need no other shift
        p, log_falling = 1 / above, position
    else:
        delta = np.full_like(above, shift)
        p, log_falling = digamma_rise(above, delta), log_gamma_rise(above, delta)
    log_flood = (log_e + log_falling + np.log1p(p / s)) / shift
    log_muted = log_k + pairs * log_flood - log_gamma_rise(m + 1, pairs)
    return log_muted + np.log1p(s / p), log_flood


NOT_PRIVATE = "No number of extra messages makes these parameters private; allow a larger error."


def with_best_pairs(
    cell: PaperCell, loss: Fraction, flood_cost: Callable[[Floats], Floats]
) -> PaperCell:
    """The cell with the cheapest number of pairs and its flood; noise and muting stay unchanged.
    `flood_cost` is the cost of flood pairs per user."""
    fewest = 1
    while not np.isfinite(_flood(cell, loss, np.array([2.0 * fewest]))[0]):
        fewest *= 2
        if fewest > 1e9:
            raise PlanningError(NOT_PRIVATE)
    low, high = max(1, fewest // 2), 8 * fewest
    for _ in range(12):
        pairs = np.unique(np.linspace(low, high, 64).astype(np.int64))
        floods = _flood(cell, loss, pairs.astype(np.float64)) / cell.users
        possible = np.isfinite(floods)
        costs = 2 * pairs + np.where(possible, flood_cost(np.where(possible, floods, 0.0)), np.inf)
        at = int(np.argmin(costs))
        if len(pairs) < 64:
            break
        low, high = int(pairs[max(at - 2, 0)]), int(pairs[min(at + 2, len(pairs) - 1)])
    best = int(pairs[at])
    for more in (0, 1, 2, 4, 8):
        with contextlib.suppress(PlanningError):
            return with_least_flood(replace(cell, input_pairs=best + more), loss)
    return with_least_flood(replace(cell, input_pairs=best + 16), loss)


def _flood(cell: PaperCell, loss: Fraction, pairs: Floats) -> Floats:
    """The least flood for each number of pairs, in floats."""
    odds = cell.mute_probability / (1 - cell.mute_probability)
    up, down, most, chance = (
        np.full_like(pairs, float(x)) for x in (cell.up_epsilon, cell.down_epsilon, loss, odds)
    )
    return least_flood((cell.largest, cell.stand_in), up, down, most, chance, pairs)


def with_least_flood(cell: PaperCell, loss: Fraction) -> PaperCell:
    """The cell with the smallest flood, to six digits, that certifies."""
    flood = float(_flood(cell, loss, np.array([float(cell.input_pairs)]))[0])
    most = 2 * flood + 100  # beyond it, the cell fails at a change that proposals do not look at
    for attempt in range(40):
        if not flood <= most:
            break
        candidate = replace(cell, flood_mean=round_to(flood, 6, up=True))
        try:
            tightest(candidate, loss)
            return candidate
        except CertificateError:
            flood *= 1 + 1e-5 * 2**attempt
    raise PlanningError(NOT_PRIVATE)


RESERVE_TILTS = np.linspace(
    0.05, 1.0, 40
)  # t as a part of the decay; the last is for one large draw alone


def reserve(decay: Floats, flood: Floats, copies: int, users: int) -> Floats:
    """Messages beyond the value's own that a report of the batch exceeds with probability 2⁻⁶⁴."""
    tilt = decay[..., None] * RESERVE_TILTS
    one_draw = math.log(copies) - np.log(-np.expm1(-decay) * 40 / decay)
    rare = OVERFLOW_BITS * math.log(2) + np.where(
        RESERVE_TILTS < 1, math.log(users), one_draw[..., None]
    )
    if flood.any():
        rare = rare + flood[..., None] * np.expm1(np.minimum(2 * tilt, 50.0))
    return np.asarray((rare / tilt).min(axis=-1))


# The differences of ln Γ and ψ between x and x + s, inside Stirling's series (after a shift by 3):
# they stay accurate even if x is 10¹² and s is a thousand.


def log_gamma_rise(x: Floats, s: Floats) -> Floats:
    """ln Γ(x+s) − ln Γ(x) for x > 0, s ≥ 0."""
    y, z = x + SHIFT, x + s + SHIFT
    result: Floats = (z - 0.5) * np.log1p(s / y) + s * (np.log(y) - 1)
    result += _log_gamma_series(1 / z) - _log_gamma_series(1 / y)
    for step in range(SHIFT):
        result -= np.log1p(s / (x + step))
    return result


def digamma_rise(x: Floats, s: Floats) -> Floats:
    """ψ(x+s) − ψ(x) for x > 0, s ≥ 0."""
    y, z = x + SHIFT, x + s + SHIFT
    result: Floats = np.log1p(s / y) + _digamma_series(1 / z) - _digamma_series(1 / y)
    for step in range(SHIFT):
        result += s / ((x + step) * (x + s + step))
    return result


def _log_gamma_series(inverse: Floats) -> Floats:
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square / 1260))


def _digamma_series(inverse: Floats) -> Floats:
    square = inverse * inverse
    return -inverse / 2 - square * (1 / 12 - square * (1 / 120 - square / 252))
