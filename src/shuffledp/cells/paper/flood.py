"""The smallest flood that makes a cell private, and the limit that no flood can beat.

Where g_δ of the certificate just touches 1 at its minimum, g = 1 and g′ = 0 together give λ as a
function of the place m, and one equation in m is left:

    w + t = 1,   w·S = t·P      (w the muted term, t the data term; S = ψ(m+s+1) − ψ(m+1),
                                 P = ψ(m+1) − ψ(m−δ+1))
    λ^δ = e^(L−bδ/D) (m)_δ (S+P)/S,      ln K + s ln λ + ln m! − ln (m+s)! = ln P/(S+P)

Floats, vectorised over whole grids of (b, q, s): they propose, the certificate decides.
"""

from __future__ import annotations

import numpy as np

from shuffledp.numbers.special import Floats, digamma_rise, log_gamma_rise

Shape = tuple[int, int]
"""A cell's largest value D and its stand-in h."""

STEPS = 34  # halvings of ln m between −30 and 40: about 9 digits


def shifts(largest: int) -> set[int]:
    """The changes δ to look at while proposing: δ = D is the tightest where there are at least D
    pairs, δ = 1 guards the small floods. The certificate looks at all of them; with fewer pairs one
    in between may fail (s = 1, D = 4, δ = 2), and then more pairs are tried."""
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
    """Positive where some flood, however large, is enough (MATH §3, for any δ)."""
    free = log_k + np.log(pairs / shift) - log_e
    inner = log_e + shift / (pairs + shift) * free + np.log1p(shift / pairs)
    at_one = np.log(np.exp(np.minimum(log_k, 700.0)) + np.exp(log_e))
    return np.where(free > 0, at_one, inner)


def least_flood(
    shape: Shape, up: Floats, down: Floats, loss: Floats, odds: Floats, pairs: Floats
) -> Floats:
    """λ at the edge of privacy, ∞ where no flood is enough. All arguments of one shape."""
    flood = np.zeros_like(pairs)
    for shift in shifts(shape[0]):
        log_k, log_e = log_terms(shift, shape, up, down, loss, odds)
        edge = _edge(shift, log_k, log_e, pairs)
        possible = reaches_limit(shift, log_k, log_e, pairs) > 1e-12
        flood = np.maximum(flood, np.where(possible, edge, np.inf))
    return flood


def _edge(shift: int, log_k: Floats, log_e: Floats, pairs: Floats) -> Floats:
    low, high = np.full_like(pairs, -30.0), np.full_like(pairs, 40.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        excess, _ = _touch(shift, log_k, log_e, pairs, middle)
        low, high = np.where(excess < 0, middle, low), np.where(excess < 0, high, middle)
    _, log_flood = _touch(shift, log_k, log_e, pairs, high)
    # below m = δ − 1 the data term vanishes: there the muted term must carry alone
    alone = (log_gamma_rise(np.full_like(pairs, shift), pairs) - log_k) / pairs
    result: Floats = np.exp(np.maximum(log_flood, np.where(shift > 1, alone, -np.inf)))
    return result


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
