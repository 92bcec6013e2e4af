"""[BBGN19] The privacy blanket of the shuffle model (Balle, Bell, Gascón, Nissim, CRYPTO 2019) and
the recursive protocol of [BBGN20]: one message per digit, each a digit or a uniform one.

A digit has k values; with probability g the message is uniform over them. The uniform messages
hide the others (the paper calls them the blanket): replacing one digit moves one message between
two symbols, among S ~ Bin(n−1, 2g/k) uniform messages that fall on these two. Revealing everything
else to the analyzer can only help it, so δ ≤ (1−g)·`swap_delta`(S), in ball arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Messages, Promised, QueryName, Setting, needs
from shuffledp.baselines.claim import Basis, Claim
from shuffledp.baselines.divergence import least, settles, swap_delta
from shuffledp.baselines.draws import (
    Counts,
    draw,
    round_randomly,
    split_evenly,
    successes,
    uniform,
)
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, round_to
from shuffledp.numbers.laws import Bernoulli, Binomial, Poisson


@dataclass(frozen=True)
class Digit:
    """The randomizer of one digit: the digit itself or, with probability g, a uniform one."""

    values: int
    """k: the digit is 0..k−1."""
    blanket: Fraction
    """g: the probability of sending a uniform digit."""

    @property
    def worst_fraction(self) -> float:
        """t: random rounding makes t, between the digits 0 and 1, the worst value of all (by
        symmetry also k−1−t); 0 where g(k−1) ≥ 1."""
        g = float(self.blanket)
        return max(0.0, (1 - g * (self.values - 1)) / (2 * (1 - g)))

    def variance(self, *, rounded: bool) -> float:
        """The variance of one user's unbiased digit at the worst value, in units of the digit."""
        g, top = float(self.blanket), self.values - 1
        t = self.worst_fraction if rounded else 0.0
        spread = g * (top * (2 * top + 1) / 6 - top**2 / 4) + (1 - g) * t * (1 - t)
        return (spread + g * (1 - g) * (t - top / 2) ** 2) / (1 - g) ** 2

    def send(self, digits: Counts, entropy: Entropy = SYSTEM) -> Counts:
        """What users with these digits send: each the digit or a uniform one."""
        covered = draw(Bernoulli(self.blanket), digits.size, entropy).astype(bool)
        return np.where(covered, uniform(digits.size, self.values, entropy), digits)

    def tally(self, held: Counts, entropy: Entropy = SYSTEM) -> Counts:
        """A draw of how often each digit is sent, if `held` users have each digit."""
        covered = np.array([successes(int(users), self.blanket, entropy) for users in held])
        result: Counts = held - covered
        return result + split_evenly(int(covered.sum()), self.values, entropy)

    def total(self, counts: Counts, users: int) -> float:
        """The unbiased estimate of the sum of the users' digits."""
        plain = int(counts @ np.arange(self.values))
        centre = users * self.blanket * (self.values - 1) / 2
        return float((plain - centre) / (1 - self.blanket))


@dataclass(frozen=True)
class BlanketSum(Promised):
    """Values in [0, 1] in a mixed radix, one message (place, digit) for each place."""

    users: int
    digits: tuple[Digit, ...]
    """The digits' randomizers, the highest place first."""
    promise: Claim
    query: ClassVar[QueryName] = "real-sum"

    @property
    def units(self) -> int:
        """The largest whole number that the digits can represent."""
        return math.prod(digit.values for digit in self.digits) - 1

    @cached_property
    def scales(self) -> list[int]:
        """How many units a 1 in each place is worth."""
        sizes = [digit.values for digit in self.digits]
        return [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]

    @property
    def bits_per_message(self) -> int:
        place = (len(self.digits) - 1).bit_length()
        return place + max((digit.values - 1).bit_length() for digit in self.digits)

    def _split(self, values: NDArray[Any], entropy: Entropy) -> list[Counts]:
        units = round_randomly(values, self.units, entropy)
        return [
            units // scale % digit.values
            for scale, digit in zip(self.scales, self.digits, strict=True)
        ]

    def randomize(self, value: float, entropy: Entropy = SYSTEM) -> Messages:
        """One user's messages as rows (place, digit)."""
        parts = self._split(np.array([value]), entropy)
        sent = [
            int(digit.send(part, entropy)[0])
            for digit, part in zip(self.digits, parts, strict=True)
        ]
        return np.array(list(enumerate(sent)))

    def collect(self, messages: Messages, users: int) -> Bag:
        tallies = [
            np.bincount(messages[messages[:, 0] == place, 1], minlength=digit.values)
            for place, digit in enumerate(self.digits)
        ]
        return Bag(users, np.concatenate(tallies))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        parts = self._split(values, entropy)
        drawn = [
            digit.tally(np.bincount(part, minlength=digit.values), entropy)
            for digit, part in zip(self.digits, parts, strict=True)
        ]
        return Bag(parts[0].size, np.concatenate(drawn), entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        ends = np.cumsum([digit.values for digit in self.digits])[:-1]
        tallies = np.split(bag.counts, ends)
        sums = [
            scale * digit.total(tally, bag.users)
            for scale, digit, tally in zip(self.scales, self.digits, tallies, strict=True)
        ]
        return np.array([sum(sums) / self.units])

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        """At the worst value for one digit; an upper bound for several (each at its worst)."""
        last = len(self.digits) - 1
        errors = [
            scale**2 * digit.variance(rounded=place == last)
            for place, (scale, digit) in enumerate(zip(self.scales, self.digits, strict=True))
        ]
        return users * sum(errors) / self.units**2

    def messages_per_user(self) -> float:
        return float(len(self.digits))


def blanket_delta(users: int, digit: Digit, epsilon: Fraction) -> arb:
    """An upper bound of the δ of one digit, as a ball."""
    hidden = Binomial(users - 1, 2 * digit.blanket / digit.values)
    return ball(1 - digit.blanket) * swap_delta(hidden, epsilon)


@lru_cache(maxsize=128)
def least_hidden(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The smallest mean of a Poisson number of uniform messages on two symbols that gives δ."""
    return least(lambda mean: settles(lambda: swap_delta(Poisson(mean), epsilon), delta), 32.0)


@lru_cache(maxsize=512)
def least_blanket(users: int, values: int, epsilon: Fraction, delta: Fraction) -> Digit:
    """The digit with the smallest g whose δ is computed: a binomial blanket is a little better
    than the Poisson one of the same mean, so the Poisson's mean is taken and then checked."""
    share = least_hidden(epsilon, delta) * values / (2 * (users - 1))
    needs(
        share < 1,
        f"{users:,} users send too few uniform messages for a digit with {values} values.",
    )
    digit = Digit(values, round_to(float(share), 5, up=True))
    needs(
        settles(lambda: blanket_delta(users, digit, epsilon), delta),
        "The calibration did not settle; change epsilon or delta slightly.",
    )
    return digit


def published_blanket(setting: Setting, values: int, parts: int) -> Digit:
    """g = max(14 k ln(2/δ)/((n−1)ε²), 27 k/((n−1)ε)) at (ε, δ)/parts, for ε ≤ 1."""
    epsilon, delta = float(setting.epsilon) / parts, float(setting.required_delta) / parts
    needs(epsilon <= 1, "BBGN19's theorem is for ε ≤ 1.")
    others = setting.users - 1
    share = max(
        14 * values * math.log(2 / delta) / (others * epsilon**2), 27 * values / (others * epsilon)
    )
    needs(share < 1, "BBGN19's theorem needs more users here.")
    return Digit(values, round_to(share, 9, up=True))


def single(setting: Setting) -> BlanketSum:
    """One message: the number of values with the least error, calibrated."""
    sizes = sorted({round(2 * 1.12**step) for step in range(60)})
    return _best(setting, [(size,) for size in sizes])


def recursive(setting: Setting) -> BlanketSum:
    """Two messages: the two radices with the least error, calibrated."""
    sizes = sorted({round(2 * 1.25**step) for step in range(24)})
    return _best(setting, [(high, low) for high in sizes for low in sizes])


def _best(setting: Setting, radices: list[tuple[int, ...]]) -> BlanketSum:
    """The radix with the least forecast error; floats choose, the δ of the choice is computed."""
    parts = len(radices[0])
    epsilon, delta = setting.epsilon / parts, setting.required_delta / parts
    per_value = float(least_hidden(epsilon, delta)) / (2 * (setting.users - 1))

    def error(radix: tuple[int, ...]) -> float:
        if max(radix) * per_value >= 0.9:
            return math.inf
        digits = tuple(Digit(size, Fraction(size * per_value)) for size in radix)
        claim = setting.claim("not verified", "")
        return BlanketSum(setting.users, digits, claim).mean_squared_error(setting.users)

    radix = min(radices, key=error)
    needs(
        math.isfinite(error(radix)),
        f"{setting.users:,} users send too few uniform messages for this ε and δ.",
    )
    digits = tuple(least_blanket(setting.users, size, epsilon, delta) for size in radix)
    note = "(1−g) times the hockey-stick divergence of the uniform messages ≤ δ" + (
        ", per place" if parts > 1 else ""
    )
    return BlanketSum(setting.users, digits, setting.claim("computed", note))


def published_single(setting: Setting) -> BlanketSum:
    """K = ⌈n^⅓⌉ steps with the published blanket, and its δ computed."""
    values = math.ceil(setting.users ** (1 / 3)) + 1
    return _published(setting, (published_blanket(setting, values, 1),))


def published_recursive(setting: Setting) -> BlanketSum:
    """M = round(log₃ log₂ n) places with the published radices and blankets."""
    n, epsilon = setting.users, float(setting.epsilon)
    places = max(1, round(math.log(math.log2(n), 3)))
    base = ((3**places - 1) * n * epsilon**2 / places**3) ** (3.0 ** -(places + 1))
    share = epsilon / places
    most = math.floor(
        (n - 1) * share / max(14 * math.log(2 * places / setting.required_delta) / share, 27)
    )
    radix = [min(math.ceil(base**3**place), most) for place in range(1, places + 1)]
    needs(min(radix) >= 2, "BBGN20's recursion needs more users here.")
    return _published(setting, tuple(published_blanket(setting, size, places) for size in radix))


def _published(setting: Setting, digits: tuple[Digit, ...]) -> BlanketSum:
    parts = len(digits)
    epsilon, delta = setting.epsilon / parts, setting.required_delta / parts

    def private(digit: Digit) -> bool:
        return settles(lambda: blanket_delta(setting.users, digit, epsilon), delta)

    basis: Basis = "computed" if all(map(private, digits)) else "theorem"
    return BlanketSum(setting.users, digits, setting.claim(basis, "published constants"))
