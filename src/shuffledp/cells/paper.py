"""The cell: [GKM23] Algorithms 1 and 2 for one counter with values 0..D (MATH §8; D = 1 there).

A user sends its value inside `input_pairs` cancelling pairs, or, with probability
`mute_probability`, nothing of it; and always its share of two noises and of the flood:

    y    = (s + x, s + h) with probability 1 − q, (0, 0) with probability q
    z_plus ~ NB(1/n, 1 − e^(−a/D)),  z_minus ~ NB(1/n, 1 − e^(−b/D)),  z_both ~ Poi(λ/n)
    send  y_plus + z_plus + z_both  times +1  and  y_minus + z_minus + z_both  times −1

h is 0 in the paper. A kept user's messages then add up to x − h, a muted one's to 0: the analyzer
adds h for everybody, so that a muted user counts as h, and muting costs (x − h)² instead of x².
With h = ⌊D/2⌋ that is a quarter, which allows a larger q and so fewer pairs (docs/mathematics.md).

Shares add up by infinite divisibility, so the noise of k users is one draw of NB(k/n) and one of
Poi(kλ/n): `aggregate` uses that, and its cost does not grow with k.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.laws import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from shuffledp.exact.numbers import ball, positive, probability, to_float, whole
from shuffledp.exact.sampler import Uniform, invert, sampler

Counts = NDArray[np.int64]
Values = NDArray[Any]

MOST_USERS = 10**13
LARGEST = 10**6
STRIDE = 1 << 18  # users at a time


def one_each(values: Values) -> None:
    """Refuses anything but one value per user: a row of values would count as one user."""
    if values.ndim != 1:
        raise ValueOutOfRange(
            f"One value per user is needed; an array of shape {values.shape} was given."
        )


@dataclass(frozen=True)
class Cell:
    """One counter's randomizer and analyzer, with every parameter an exact number."""

    users: int
    """How many honest users are sure to take part (n in the paper): each adds 1/n of the noise."""
    largest: int
    """D: values are 0..D."""
    up_epsilon: Fraction
    """a: the +1 noise is Geo(1 − e^(−a/D)) in all."""
    down_epsilon: Fraction
    """b: the −1 noise is Geo(1 − e^(−b/D)) in all."""
    mute_probability: Fraction
    """q: the chance that a user sends nothing of its value (erratum 4: below 1)."""
    input_pairs: int
    """s: cancelling pairs around the value."""
    flood_mean: Fraction
    """λ: the expected number of pairs in the flood of all users together."""
    stand_in: int = 0
    """h: the value that a muted user is taken to hold."""

    def __post_init__(self) -> None:
        whole(self.users, "users", most=MOST_USERS)
        whole(self.largest, "the largest value", most=LARGEST)
        positive(self.up_epsilon, "up_epsilon")
        positive(self.down_epsilon, "down_epsilon")
        probability(self.mute_probability, "mute_probability")
        whole(self.input_pairs, "input_pairs", least=0)
        whole(self.stand_in, "stand_in", least=0, most=self.largest)
        bare = self.input_pairs == 0 and self.stand_in == 0
        if self.flood_mean < 0 or (self.flood_mean == 0 and not bare):
            raise ParameterError("flood_mean must be above 0 where there are input pairs to hide.")

    @cached_property
    def mute(self) -> Binomial:
        """The coin that silences a user's value."""
        return Bernoulli(self.mute_probability)

    @cached_property
    def plus_noise(self) -> NegativeBinomial:
        """The +1 noise of all users together."""
        return Geometric(self.up_epsilon / self.largest)

    @cached_property
    def minus_noise(self) -> NegativeBinomial:
        """The −1 noise of all users together."""
        return Geometric(self.down_epsilon / self.largest)

    @cached_property
    def flood(self) -> Poisson:
        """The flood of all users together."""
        return Poisson(self.flood_mean)

    # Algorithm 1: the randomizer

    def randomize(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """How many +1 and −1 each user sends, user by user, each with noise of its own.

        Requires: an integer array.
        Ensures: place i is an independent draw of the randomizer at values[i], exactly.
        """
        values = self.checked(values)
        plus, minus = np.empty((2, values.size), np.int64)
        for begin in range(0, values.size, STRIDE):  # part by part: it all stays in the cache
            part = slice(begin, begin + STRIDE)
            self._randomize_part(values[part], plus[part], minus[part], entropy)
        return plus, minus

    def _randomize_part(
        self, values: Values, plus: Counts, minus: Counts, entropy: Entropy
    ) -> None:
        plus[:] = values  # first widened, then added to: a byte would wrap around
        plus += self.input_pairs
        minus.fill(self.input_pairs + self.stand_in)
        muted = sampler(self.mute).hits(values.size, entropy)  # line 2
        plus[muted] = 0
        minus[muted] = 0
        sampler(self.plus_noise.share(self.users)).add_draws(entropy, plus)  # line 3
        sampler(self.minus_noise.share(self.users)).add_draws(entropy, minus)
        sampler(self.flood.share(self.users)).add_draws(entropy, plus, minus)  # lines 4 and 5

    def randomize_total(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """The sums of `randomize`: every user's own draws, of which only the sums are kept."""
        values, size = self.checked(values), len(values)
        muted = sampler(self.mute).hits(size, entropy)
        kept = size - muted.size
        held = int(values.sum(dtype=np.int64)) - int(values[muted].sum(dtype=np.int64))
        both = sampler(self.flood.share(self.users)).total(size, entropy)
        z_plus = sampler(self.plus_noise.share(self.users)).total(size, entropy)
        z_minus = sampler(self.minus_noise.share(self.users)).total(size, entropy)
        plus = kept * self.input_pairs + held + both + z_plus
        return plus, kept * (self.input_pairs + self.stand_in) + both + z_minus

    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """How many +1 and −1 users with these values send in all: `tally[x]` of them hold x.

        Ensures: the law of the sum of `randomize` over these users, at a cost that does not grow
        with their number.
        """
        if tally.shape != (self.largest + 1,) or (tally < 0).any():
            raise ValueOutOfRange(f"A tally holds one count for each value 0..{self.largest}.")
        users = int(tally.sum())
        if users == 0:
            return 0, 0
        plus, minus = (int(noise[0]) for noise in self.noise(users, 1, entropy))
        for value in np.flatnonzero(tally):
            kept = self.kept(int(tally[value]), entropy)
            plus += kept * (self.input_pairs + int(value))
            minus += kept * (self.input_pairs + self.stand_in)
        return plus, minus

    def kept(self, users: int, entropy: Entropy = SYSTEM) -> int:
        """How many of so many users are not muted."""
        muted = Binomial(users, self.mute_probability)
        return users - invert(muted, Uniform(entropy.bits(64), 64, entropy))

    def noise(self, users: int, copies: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """Noise and flood of so many users in all, for `copies` independent cells."""
        share = Fraction(users, self.users)
        plus = sampler(NegativeBinomial(share, self.plus_noise.decay)).draw(copies, entropy)
        minus = sampler(NegativeBinomial(share, self.minus_noise.decay)).draw(copies, entropy)
        sampler(Poisson(share * self.flood_mean)).add_draws(entropy, plus, minus)
        return plus, minus

    def checked(self, values: Values) -> Values:
        """`values` as integers in 0..D (not copied), or a refusal that does not name them."""
        array = np.asarray(values)
        one_each(array)
        if array.dtype.kind not in "biu":
            raise ValueOutOfRange(
                f"Values must be whole numbers in 0..{self.largest}; "
                f"an array of type {array.dtype} was given: round or encode it first."
            )
        if (
            array.size
            and array.dtype.kind != "b"
            and (int(array.min()) < 0 or int(array.max()) > self.largest)
        ):
            raise ValueOutOfRange(
                f"Some value lies outside 0..{self.largest}; nothing was randomized: "
                "correct the data, or plan for a larger range."
            )
        return array.view(np.uint8) if array.dtype.kind == "b" else array

    # Algorithm 2: the analyzer (erratum 1: the plain sum, unbiased here by MATH §4)

    def estimate(self, plus: int, minus: int, users: int) -> arb:
        """The unbiased estimate of the sum of the users' values."""
        centre = ball(Fraction(users, self.users)) * (
            self.plus_noise.mean() - self.minus_noise.mean()
        )
        kept = (plus - minus - centre) / ball(1 - self.mute_probability)
        return users * self.stand_in + kept

    def estimates(self, sums: Counts, users: int) -> NDArray[np.float64]:
        """The estimates behind many plain sums V₊ − V₋, in floats, for reporting."""
        centre = to_float(lambda: self.estimate(0, 0, users))
        result: NDArray[np.float64] = centre + sums / (1 - float(self.mute_probability))
        return result

    def most_squares(self, users: int, total: Fraction | int | None = None) -> Fraction:
        """The largest sum of (x − h)² over users whose values add up to `total` (to anything if
        None): values at the ends of 0..D are the worst."""
        d, h = self.largest, self.stand_in
        if total is None:
            return Fraction(users * max(h, d - h) ** 2)
        return Fraction(total) * (d - 2 * h) + users * h * h

    def mean_squared_error(self, users: int, sum_of_squares: Fraction | int) -> arb:
        """The error's exact second moment, for users whose (x − h)² add up so (MATH §4)."""
        q = self.mute_probability
        noise = self.plus_noise.variance() + self.minus_noise.variance()
        muted = ball(q * (1 - q) * sum_of_squares)
        return (muted + ball(Fraction(users, self.users)) * noise) / ball((1 - q) ** 2)

    def messages_per_user(self, mean_value: Fraction | int | None = None) -> arb:
        """The expected number of messages a user sends (erratum 2: the flood counts twice);
        at the largest value unless a mean is given."""
        x = Fraction(self.largest if mean_value is None else mean_value)
        noise = (self.plus_noise.mean() + self.minus_noise.mean()) / self.users
        flood = ball(2 * self.flood_mean / self.users)
        sent = 2 * self.input_pairs + self.stand_in + x
        return ball((1 - self.mute_probability) * sent) + flood + noise
