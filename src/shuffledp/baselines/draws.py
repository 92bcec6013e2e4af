"""Exact draws that only baselines need; all randomness comes from `Entropy`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.laws import Bernoulli, Binomial, Law, NegativeBinomial
from shuffledp.numbers.sampler import sampler
from shuffledp.numbers.uniform import Uniform, invert

Counts = NDArray[np.int64]

BINARY_PLACES = 40  # real values are rounded to these: 10⁻¹², far below any error here
FEW_TRIALS = 1 << 14  # up to here, drawing each trial is faster than inverting a binomial
MOST_UNITS = 1 << 22  # per 1: with the binary places, more do not fit into 64 bits


def draw(law: Law, size: int, entropy: Entropy = SYSTEM) -> Counts:
    """`size` independent draws from a distribution, whose table is cached."""
    return sampler(law).draw(size, entropy)


def draw_once(law: Law, entropy: Entropy = SYSTEM) -> int:
    """One draw from a distribution that is unlikely to be used again, so no table is built."""
    return invert(law, Uniform(entropy.bits(64), 64, entropy))


def successes(trials: int, chance: Fraction, entropy: Entropy = SYSTEM) -> int:
    """How many of `trials` independent trials succeed: a draw of Bin(trials, chance)."""
    if trials == 0 or chance == 0:
        return 0
    if trials <= FEW_TRIALS:
        return int(draw(Bernoulli(chance), trials, entropy).sum())
    return trials if chance == 1 else draw_once(Binomial(trials, chance), entropy)


def split_evenly(total: int, kinds: int, entropy: Entropy = SYSTEM) -> Counts:
    """How often each of `kinds` kinds is chosen in `total` independent uniform choices."""
    if total <= FEW_TRIALS:
        return np.bincount(uniform(total, kinds, entropy), minlength=kinds)
    counts = np.zeros(kinds, np.int64)
    for kind in range(kinds - 1):
        counts[kind] = successes(total, Fraction(1, kinds - kind), entropy)
        total -= int(counts[kind])
    counts[-1] = total
    return counts


def share_of(noise: NegativeBinomial, users: int, planned: int) -> NegativeBinomial:
    """The noise of `users` users, if `planned` users together add all of it."""
    return NegativeBinomial(noise.shape * Fraction(users, planned), noise.decay)


def uniform(size: int, bound: int, entropy: Entropy = SYSTEM) -> Counts:
    """Independent uniform integers in 0..bound−1, by rejection (bound at most 2⁶²)."""
    if not 1 <= bound <= 1 << 62:
        raise ParameterError("A uniform draw needs a bound between 1 and 2^62.")
    return uniform_below(bound, size, entropy)


def whole_values(values: NDArray[Any], largest: int) -> Counts:
    """Users' values as integers in 0..largest; the error does not show them."""
    array = np.asarray(values)
    if array.dtype.kind not in "biu":
        raise ValueOutOfRange(
            f"Values must be whole numbers in 0..{largest}; an array of type {array.dtype} was "
            "given: round or encode it first."
        )
    if array.size and (int(array.min()) < 0 or int(array.max()) > largest):
        raise ValueOutOfRange(f"Some values are outside 0..{largest}; correct the data.")
    return array.astype(np.int64).ravel()


def unit_values(values: NDArray[Any]) -> NDArray[np.float64]:
    """Users' values as reals in [0, 1]; the error does not show them."""
    array = np.asarray(values, np.float64).ravel()
    if array.size and not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
        raise ValueOutOfRange(
            "Some values are outside the bounds (0 and 1 by default) or are not numbers; pass "
            "wider bounds or correct the data."
        )
    return array


def round_randomly(values: NDArray[Any], units: int, entropy: Entropy = SYSTEM) -> Counts:
    """Users' values in [0, 1] as integers 0..units, rounded up or down at random without bias.

    Values are first rounded to 40 binary places; from then on every probability is exact.
    """
    if not 1 <= units <= MOST_UNITS:
        raise ParameterError(f"Rounding to a grid needs between 1 and {MOST_UNITS:,} units.")
    places = np.rint(unit_values(values) * float(1 << BINARY_PLACES)).astype(np.int64)
    scaled = places * np.int64(units)
    below = scaled & np.int64((1 << BINARY_PLACES) - 1)
    coin = (entropy.words(scaled.size, np.uint64) >> np.uint64(64 - BINARY_PLACES)).astype(np.int64)
    return (scaled >> np.int64(BINARY_PLACES)) + (coin < below)
