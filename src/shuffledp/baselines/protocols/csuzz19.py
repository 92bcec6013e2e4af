"""Randomized response and a shuffler, one bit per user, calibrated in five ways.

[CSUZZ19] Distributed DP via shuffling (EUROCRYPT 2019): with probability λ/n a random bit, else
the true one; so each bit is flipped with probability f = λ/(2n).
[EFMRTT19] and [FMT21] (SODA 2019, FOCS 2021) bound the privacy that shuffling gives to any ε₀-local
message. The calibrated variant computes the view itself: with m ones among the others it is Bin(m,
1−f) + Bin(n−1−m, f) plus the user's bit, and

    H_ε = max over t of  α F(t) − β F(t−1),   α = 1−f − e^ε f,  β = e^ε(1−f) − f,

because the others' law is log-concave; the other direction is its mirror image.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.baselines.base import Setting, needs
from shuffledp.baselines.claim import Basis, Claim
from shuffledp.baselines.divergence import least, settles
from shuffledp.baselines.protocols.local import RandomizedResponse, local_epsilon
from shuffledp.numbers.exact import ball, round_to

Masses = NDArray[np.float64]

WINDOW_DEVIATIONS = 12  # around the mean; what lies beyond is below 10⁻²⁵


@lru_cache(maxsize=512)
def binomial(trials: int, chance: float) -> Masses:
    """Bin(trials, chance) around its mean, up to tails below 10⁻²⁵; only the shape
    matters, so the first value is not given.

    Every mass is the one before times a ratio, from the mode outwards, and the whole is
    normalised by its sum: relative errors are a few hundred roundings.
    """
    if trials == 0 or chance == 0:
        return np.ones(1)
    mean = trials * chance
    reach = WINDOW_DEVIATIONS * math.sqrt(mean * (1 - chance)) + 60
    first, last = max(0, int(mean - reach)), min(trials, int(mean + reach))
    mode = min(max(int((trials + 1) * chance), first), last)
    odds = chance / (1 - chance)
    up = np.arange(mode, last, dtype=np.float64)
    down = np.arange(mode, first, -1, dtype=np.float64)
    right = np.cumprod((trials - up) / (up + 1) * odds)
    left = np.cumprod(down / (trials - down + 1) / odds)
    masses = np.concatenate([left[::-1], [1.0], right])
    result: Masses = masses / masses.sum()
    return result


EVERY_DATA_SET_USERS = 4_000  # up to this many users, δ is computed for every number of ones
MOST_FLIP = 0.499  # the largest flip probability: at ½ a bit would reveal nothing
DELTA_MARGIN = 1 + 1e-6  # floats add positive terms only: relative errors stay below 10⁻⁹


def exact_delta(users: int, flip: float, epsilon: float, ones: int) -> float:
    """H_ε of the view with `ones` ones among the other users, the worse direction. Floats."""
    low = _low_delta(users, flip, epsilon, ones)
    return max(low, _low_delta(users, flip, epsilon, users - 1 - ones))


def _low_delta(users: int, flip: float, epsilon: float, ones: int) -> float:
    """H_ε of the view of a user with 0 against that of a user with 1."""
    grow = math.exp(epsilon)
    alpha, beta = 1 - flip - grow * flip, grow * (1 - flip) - flip
    if alpha <= 0:
        return 0.0  # flipping alone is ε-private
    cumulative = np.cumsum(_others(users, flip, ones))
    before = np.concatenate([[0.0], cumulative[:-1]])
    return max(0.0, float(np.max(alpha * cumulative - beta * before)))


def _others(users: int, flip: float, ones: int) -> Masses:
    """The law of the other users' ones, up to a shift: zeros that rise less ones that fall."""
    rise = binomial(users - 1 - ones, flip)
    fall = binomial(ones, flip)
    return np.convolve(rise, fall[::-1])


def ones_looked_at(users: int) -> list[int]:
    """Numbers of ones among the others at which δ is computed; by symmetry half of them."""
    half = (users - 1) // 2
    if users <= EVERY_DATA_SET_USERS:
        return list(range(half + 1))
    few = np.unique(np.concatenate([np.arange(40), np.linspace(0, half, 160).astype(int)]))
    return [int(m) for m in few]


@lru_cache(maxsize=128)
def least_flip(users: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The smallest f whose computed δ is small enough at every number of ones checked."""
    e, target = float(epsilon), float(delta) / DELTA_MARGIN
    worst = [0, (users - 1) // 2]

    def private(flip: Fraction) -> bool:
        return flip < Fraction(1, 2) and all(
            exact_delta(users, float(flip), e, m) <= target for m in worst
        )

    enough = private(Fraction(MOST_FLIP))
    needs(enough, f"Shuffling {users:,} flipped bits does not reach this (ε, δ).")
    found = least(private, min(4 / users, 0.25), most=MOST_FLIP)
    while True:
        fails = [
            m for m in ones_looked_at(users) if exact_delta(users, float(found), e, m) > target
        ]
        if not fails:
            return found
        worst += fails
        found = least(private, float(found), most=MOST_FLIP)


def computed(setting: Setting) -> RandomizedResponse:
    """The least flip probability whose δ, computed from the view itself, is small enough."""
    flip = least_flip(setting.users, setting.epsilon, setting.required_delta)
    which = "every data set"
    if setting.users > EVERY_DATA_SET_USERS:
        which = f"{len(ones_looked_at(setting.users))} data sets, the ends among them"
    note = f"hockey-stick divergence at {which}"
    return RandomizedResponse(setting.users, flip, setting.claim("computed", note))


def published(setting: Setting) -> RandomizedResponse:
    """The flip probability of the published theorem, and its δ computed."""
    epsilon, n = float(setting.epsilon), setting.users
    log = math.log(4 / setting.required_delta)
    if epsilon >= math.sqrt(192 * log / n):
        noisy = 64 * log / epsilon**2
    else:
        noisy = n - epsilon * n**1.5 / math.sqrt(432 * log)
    needs(0 < noisy < n, "CSUZZ19's theorem needs more users here.")
    flip = round_to(noisy / n / 2, 9, up=True)
    return RandomizedResponse(n, flip, _checked(setting, flip, "published constants"))


def _checked(setting: Setting, flip: Fraction, note: str) -> Claim:
    """The claim of a published bound; violated if its computed δ is too large."""
    target = float(setting.required_delta) / DELTA_MARGIN
    ends = (0, (setting.users - 1) // 2)
    worst = max(exact_delta(setting.users, float(flip), float(setting.epsilon), m) for m in ends)
    basis: Basis = "theorem" if worst <= target else "violated"
    return setting.claim(basis, note)


def amplified(
    setting: Setting, bound: Callable[[arb, int, Fraction], arb], most: float, name: str
) -> RandomizedResponse:
    """Randomized response with the smallest f for which an amplification bound, in ball arithmetic,
    gives ε. The bound holds for ε₀ ≤ `most`, so f ≥ 1/(1 + e^most)."""
    n, delta = setting.users, setting.required_delta

    def private(flip: Fraction) -> bool:
        return flip < Fraction(1, 2) and settles(
            lambda: bound(local_epsilon(flip), n, delta), setting.epsilon
        )

    needs(private(Fraction(MOST_FLIP)), f"{name} gives no bound for this few users; plan for more.")
    flip = least(private, 0.25, most=MOST_FLIP)
    flip = max(flip, round_to(1 / (1 + math.exp(most)), 9, up=True))
    return RandomizedResponse(n, flip, _checked(setting, flip, "amplification bound"))


def efmrtt_bound(local: arb, users: int, delta: Fraction) -> arb:
    """The ε that [EFMRTT19] gives: 12 ε₀ √(ln(1/δ)/n)."""
    return 12 * local * (-ball(delta).log() / users).sqrt()


def fmt_bound(local: arb, users: int, delta: Fraction) -> arb:
    """The ε that [FMT21] gives: ln(1 + (e^ε₀−1)/(e^ε₀+1)·(8√(e^ε₀ ln(4/δ)/n) + 8e^ε₀/n))."""
    grow = local.exp()
    root = (grow * ball(4 / delta).log() / users).sqrt()
    return (1 + (grow - 1) / (grow + 1) * (8 * root + 8 * grow / users)).log()


def efmrtt19(setting: Setting) -> RandomizedResponse:
    """Randomized response with the bound of [EFMRTT19], for ε₀ ≤ ½, n ≥ 1000 and δ < 1/100."""
    needs(setting.users >= 1000, "EFMRTT19's bound needs at least 1,000 users.")
    needs(setting.required_delta < Fraction(1, 100), "EFMRTT19's bound needs δ < 1/100.")
    return amplified(setting, efmrtt_bound, 0.5, "EFMRTT19")


def fmt21(setting: Setting) -> RandomizedResponse:
    """Randomized response with the bound of [FMT21], for ε₀ ≤ ln(n/(16 ln(2/δ)))."""
    most = math.log(setting.users / (16 * math.log(2 / setting.required_delta)))
    needs(most > 0, "FMT21's bound needs more users here.")
    return amplified(setting, fmt_bound, most, "FMT21")
