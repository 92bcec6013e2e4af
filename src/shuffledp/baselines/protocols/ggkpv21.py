"""[GGKPV21] On the power of multiple anonymous messages (Ghazi, Golowich, Kumar, Pagh, Velingker,
EUROCRYPT 2021): the private-coin Hadamard histogram.

The columns of a 2B × 2B Hadamard matrix on which row x+1 is +1 are the code words of bucket x. A
user sends one tuple of τ = ⌈log₂ n⌉ uniform code words of its bucket and ρ tuples of uniform
columns. A uniform tuple looks like one of bucket x with probability 2^−τ, so S ~ Bin(nρ,
2(2^−τ − 4^−τ)) noise tuples look like exactly one of two buckets: δ ≤ `swap_delta`(S).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Messages, Promised, QueryName, Setting, collected
from shuffledp.baselines.claim import Claim
from shuffledp.baselines.divergence import settles, swap_delta
from shuffledp.baselines.draws import uniform, whole_values
from shuffledp.baselines.protocols.bbgn19 import least_hidden
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.laws import Binomial

MOST_WORK = 1 << 32  # the most tuples · τ · buckets that are simulated


@dataclass(frozen=True, kw_only=True)
class HadamardTuples(Promised):
    """A histogram of tuples of code words among uniform tuples."""

    users: int
    buckets: int
    noise: int
    """ρ: how many noise tuples each user sends."""
    promise: Claim
    query: ClassVar[QueryName] = "histogram"

    @classmethod
    def plan(cls, setting: Setting) -> HadamardTuples:
        """The histogram with the smallest ρ whose computed δ is small enough."""
        epsilon, delta, users = setting.epsilon, setting.required_delta, setting.users
        length = _length(users)
        start = least_hidden(epsilon, delta) / (2 * users) * 2**length
        rho = math.ceil(start)
        while not _private(users, rho, epsilon, delta):
            rho += 1
        claim = setting.claim("computed", "hockey-stick divergence of the noise messages ≤ δ")
        return cls(users=users, buckets=setting.required_buckets, noise=rho, promise=claim)

    @classmethod
    def published(cls, setting: Setting) -> HadamardTuples:
        """The histogram with ρ = ⌈36 ln(1/δ)/ε²⌉, and its δ computed."""
        epsilon, delta, users = setting.epsilon, setting.required_delta, setting.users
        rho = math.ceil(36 * -math.log(delta) / float(epsilon) ** 2)
        claim = setting.checked(_private(users, rho, epsilon, delta))
        return cls(users=users, buckets=setting.required_buckets, noise=rho, promise=claim)

    @property
    def length(self) -> int:
        """τ: how many code words a tuple has."""
        return _length(self.users)

    @property
    def column_bits(self) -> int:
        """How many bits number a column of the matrix: log₂ of its size."""
        return (self.buckets - 1).bit_length() + 1

    @property
    def bits_per_message(self) -> int:
        return self.length * self.column_bits

    def _own(self, values: NDArray[Any], entropy: Entropy) -> Messages:
        """A tuple of code words for each user: columns whose sign is wrong are turned around."""
        rows = whole_values(values, self.buckets - 1)[:, None] + 1
        columns = self._noise(len(rows), entropy)
        wrong = np.bitwise_count(rows & columns) & 1 == 1
        return np.where(wrong, columns ^ (rows & -rows), columns)

    def _noise(self, tuples: int, entropy: Entropy) -> Messages:
        size = tuples * self.length
        return uniform(size, 1 << self.column_bits, entropy).reshape(tuples, self.length)

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        """One user's messages: rows of τ column numbers."""
        return np.concatenate(
            [self._own(np.array([value]), entropy), self._noise(self.noise, entropy)]
        )

    def collect(self, messages: Messages, users: int) -> Bag:
        """How many tuples look like each bucket."""
        fits = [
            (np.bitwise_count(messages & (bucket + 1)) & 1 == 0).all(axis=1).sum()
            for bucket in range(self.buckets)
        ]
        return Bag(users, np.array(fits, np.int64))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        """Message by message, in chunks: buckets share their noise, so there is no shortcut."""
        codes = np.asarray(values)
        work = codes.size * (1 + self.noise) * self.length * self.buckets
        if work > MOST_WORK:
            raise ParameterError(
                f"Simulating {codes.size * (1 + self.noise):,} tuples for {self.buckets:,} buckets "
                "would take too long; use fewer users or buckets, or another protocol."
            )
        own = self._own(codes, entropy)
        return collected(self, own, self._noise, codes.size * self.noise, entropy)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        chance = 2.0**-self.length
        centre = (1 + self.noise) * bag.users * chance
        return np.asarray(bag.counts - centre) / (1 - chance)

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        """(n − c + nρ) 2^−τ/(1 − 2^−τ), worst where c = 0."""
        chance = 2.0**-self.length
        return (users * (1 + self.noise) - (total or 0.0)) * chance / (1 - chance)

    def messages_per_user(self) -> float:
        return 1.0 + self.noise


def _length(users: int) -> int:
    return max(1, (users - 1).bit_length())


def _private(users: int, noise: int, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether ρ gives (ε, δ), in ball arithmetic."""
    return settles(lambda: swap_delta(_hidden(users, noise), epsilon), delta)


def _hidden(users: int, noise: int) -> Binomial:
    """The law of S: how many noise tuples look like exactly one of two buckets."""
    chance = Fraction(1, 2 ** _length(users))
    return Binomial(users * noise, 2 * (chance - chance**2))
