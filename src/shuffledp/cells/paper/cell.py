"""The paper's cell: [GKM23] Algorithms 1 and 2 for one counter, values 0..D (MATH §8).

A user sends its value inside `input_pairs` cancelling pairs, or, with probability
`mute_probability`, nothing of it; and always its share of two noises and of the flood:

    y    = (s + x, s + h) with probability 1 − q, (0, 0) with probability q
    z_plus ~ NB(1/n, 1 − e^(−a/D)),  z_minus ~ NB(1/n, 1 − e^(−b/D)),  z_both ~ Poi(λ/n)
    send  y_plus + z_plus + z_both  times +1  and  y_minus + z_minus + z_both  times −1

h is 0 in the paper. A kept user's messages then add up to x − h, a muted one's to 0: the analyzer
adds h for every user, so a muted user counts as h, and muting costs (x − h)² instead of x². With h
= ⌊D/2⌋ that is a quarter, which allows a larger q and so fewer pairs (docs/mathematics.md).

Shares add up by infinite divisibility, so the noise of k users is one draw of NB(k/n) and one of
Poi(kλ/n): `aggregate` uses that, and its cost does not grow with k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from flint import arb

from shuffledp.cells.base import (
    CELL_EPSILON,
    LARGEST_VALUE,
    MOST_USERS,
    PROBABILITY,
    Counts,
    Floats,
    IndependentCell,
    Values,
    check_epsilon,
)
from shuffledp.cells.paper import error as paper_error
from shuffledp.cells.paper.limit import least_pairs
from shuffledp.documents.schema import OneOf, Rational, Record, Whole
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, exact, probability, show, to_float, whole
from shuffledp.numbers.laws import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from shuffledp.numbers.message_law import NoiseMessages
from shuffledp.numbers.sampler import sampler
from shuffledp.numbers.uniform import Uniform, invert

MOST_INPUT_PAIRS = 10**9
LARGEST_FLOOD_MEAN = Fraction(10**100)


@dataclass(frozen=True, kw_only=True)
class PaperCell(IndependentCell):
    """The cell of [GKM23]: pairs around the value, two noises, and pairs of noise (the flood)."""

    kind: ClassVar[str] = "paper"

    users: int
    """The guaranteed number of honest users (n in the paper); each adds 1/n of the noise."""
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
    """h: the value that the analyzer assumes for a muted user."""

    def __post_init__(self) -> None:
        whole(self.users, "users", most=MOST_USERS)
        whole(self.largest, "the largest value", most=LARGEST_VALUE)
        check_epsilon(self.up_epsilon, "up_epsilon")
        check_epsilon(self.down_epsilon, "down_epsilon")
        probability(self.mute_probability, "mute_probability")
        whole(self.input_pairs, "input_pairs", least=0, most=MOST_INPUT_PAIRS)
        whole(self.stand_in, "stand_in", least=0, most=self.largest)
        if exact(self.flood_mean, "flood_mean") > LARGEST_FLOOD_MEAN:
            raise ParameterError(f"flood_mean must be at most {show(LARGEST_FLOOD_MEAN)}.")
        bare = self.input_pairs == 0 and self.stand_in == 0
        if self.flood_mean < 0 or (self.flood_mean == 0 and not bare):
            raise ParameterError("flood_mean must be above 0 if there are input pairs to hide.")

    @property
    def proof_steps(self) -> float:
        """For each change, g at a few points per bit of the flood, both ways; each takes s + h + δ
        factors."""
        points = 4 * (math.floor(self.flood_mean) + 1).bit_length() + 16
        factors = self.input_pairs + self.stand_in + (self.largest + 1) / 2
        return 2 * points * (2 if self.stand_in else 1) * self.largest * factors

    @cached_property
    def mute(self) -> Binomial:
        """1 with the probability that a user sends nothing of its value."""
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

    @property
    def up_loss(self) -> Fraction:
        return self.up_epsilon

    # Algorithm 1: the randomizer

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """One user's messages: Algorithm 1, line by line; see `IndependentCell.randomize`."""
        muted = sampler(self.mute).draw_one(entropy)  # line 2
        y_plus, y_minus = (0, 0) if muted else self.kept_messages(value)
        z_plus = sampler(self.plus_noise.share(self.users)).draw_one(entropy)  # line 3
        z_minus = sampler(self.minus_noise.share(self.users)).draw_one(entropy)
        z_both = sampler(self.flood.share(self.users)).draw_one(entropy)  # line 4
        return y_plus + z_plus + z_both, y_minus + z_minus + z_both  # line 5

    def kept_messages(self, value: int) -> tuple[int, int]:
        """How many +1 and −1 a value sends that is not muted."""
        return self.input_pairs + value, self.input_pairs + self.stand_in

    def randomize_total(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        values, size = self.checked(values), len(values)
        muted = sampler(self.mute).hits(size, entropy)
        kept = size - muted.size
        held = int(values.sum(dtype=np.int64)) - int(values[muted].sum(dtype=np.int64))
        both = sampler(self.flood.share(self.users)).total(size, entropy)
        z_plus = sampler(self.plus_noise.share(self.users)).total(size, entropy)
        z_minus = sampler(self.minus_noise.share(self.users)).total(size, entropy)
        base_plus, base_minus = self.kept_messages(0)
        return kept * base_plus + held + both + z_plus, kept * base_minus + both + z_minus

    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        users = self.checked_tally(tally)
        if users == 0:
            return 0, 0
        plus, minus = (int(noise[0]) for noise in self.noise(users, 1, entropy))
        for value in np.flatnonzero(tally):
            kept = self._kept(int(tally[value]), entropy)
            one_plus, one_minus = self.kept_messages(int(value))
            plus += kept * one_plus
            minus += kept * one_minus
        return plus, minus

    def aggregate_copies(
        self, ones: Counts, users: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        if users == 0:
            return np.zeros_like(ones), np.zeros_like(ones)
        plus, minus = self.noise(users, len(ones), entropy)
        for value, counts in ((1, ones), (0, users - ones)):
            kept = np.array([self._kept(int(count), entropy) for count in counts])
            one_plus, one_minus = self.kept_messages(value)
            plus += kept * one_plus
            minus += kept * one_minus
        return plus, minus

    def _kept(self, users: int, entropy: Entropy) -> int:
        """How many of `users` users are not muted."""
        muted = Binomial(users, self.mute_probability)
        return users - invert(muted, Uniform(entropy.bits(64), 64, entropy))

    def noise(self, users: int, copies: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """Noise and flood of `users` users together, for each of the copies."""
        share = Fraction(users, self.users)
        plus = sampler(NegativeBinomial(share, self.plus_noise.decay)).draw(copies, entropy)
        minus = sampler(NegativeBinomial(share, self.minus_noise.decay)).draw(copies, entropy)
        sampler(Poisson(share * self.flood_mean)).add_draws(entropy, plus, minus)
        return plus, minus

    def top_up(self, absent: int, copies: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """Only noise and flood: a muted user's messages, which count as `stand_in`."""
        return self.noise(absent, copies, entropy)

    # How many messages

    def messages_per_user(self, mean_value: Fraction | int | None = None) -> arb:
        """See `Cell.messages_per_user` (erratum 2: a pair of the flood is two messages)."""
        x = Fraction(self.largest if mean_value is None else mean_value)
        noise = (self.plus_noise.mean() + self.minus_noise.mean()) / self.users
        flood = ball(2 * self.flood_mean / self.users)
        sent = sum(self.kept_messages(0)) + x
        return ball((1 - self.mute_probability) * sent) + flood + noise

    def fewest_messages(self, loss: Fraction, copies: int) -> float | None:
        """Whatever the flood is, with this noise and this chance of being muted (MATH §3)."""
        if self.largest > 1 or self.stand_in or self.down_epsilon > loss:
            return None
        pairs = least_pairs(loss, self.down_epsilon, self.mute_probability, self.input_pairs)
        return float(1 - self.mute_probability) * (2 * copies * pairs + 1)

    def message_laws(self, copies: int) -> tuple[int, list[NoiseMessages]]:
        most_input = copies * sum(self.kept_messages(0)) + self.largest
        shape = Fraction(copies, self.users)  # copies add up to one law of each kind
        return most_input, [
            NoiseMessages(NegativeBinomial(shape, self.plus_noise.decay)),
            NoiseMessages(NegativeBinomial(shape, self.minus_noise.decay)),
            NoiseMessages(Poisson(shape * self.flood_mean), step=2),
        ]

    # Algorithm 2: the analyzer (erratum 1: the plain sum, unbiased here by MATH §4)

    @property
    def absent_value(self) -> int:
        return self.stand_in

    def estimate(self, plus: int, minus: int, users: int) -> arb:
        centre = ball(Fraction(users, self.users)) * (
            self.plus_noise.mean() - self.minus_noise.mean()
        )
        kept = (plus - minus - centre) / ball(1 - self.mute_probability)
        return users * self.stand_in + kept

    def estimates(self, sums: Counts, users: int) -> Floats:
        centre = to_float(lambda: self.estimate(0, 0, users))
        return np.asarray(centre + sums / (1 - float(self.mute_probability)))

    def most_squares(self, users: int, total: Fraction | int | None = None) -> Fraction:
        """The largest sum of (x − h)² over users whose values add up to `total` (to anything if
        None): values at the ends of 0..D are the worst."""
        d, h = self.largest, self.stand_in
        if total is None:
            return Fraction(users * max(h, d - h) ** 2)
        return Fraction(total) * (d - 2 * h) + users * h * h

    def noise_error(self, users: int) -> arb:
        """The mean squared error of the noise alone, without muting."""
        noise = self.plus_noise.variance() + self.minus_noise.variance()
        return ball(Fraction(users, self.users)) * noise / ball((1 - self.mute_probability) ** 2)

    def squared_error(self, users: int, sum_of_squares: Fraction | int) -> arb:
        """The error's exact second moment, for users with this sum of (x − h)² (MATH §4)."""
        q = self.mute_probability
        return ball(q / (1 - q) * sum_of_squares) + self.noise_error(users)

    def mean_squared_error(self, users: int, total: Fraction | int | None = None) -> arb:
        return self.squared_error(users, self.most_squares(users, total))

    def variance_at(self, users: int, total: float, squares: float) -> float:
        q, h = self.mute_probability, self.stand_in
        held = squares - 2 * h * total + users * h * h
        return float(q / (1 - q)) * held + to_float(lambda: self.noise_error(users))

    intervals = paper_error.intervals
    error_range = paper_error.error_range
    error_law = paper_error.error_law
    log_error = paper_error.log_error
    log_moment = paper_error.log_moment
    minus_moment = paper_error.minus_moment

    def minus_law(self, reports: int, absent: int) -> tuple[float, float]:
        """V₋, which does not depend on the values: Bin(reports, 1−q)·(s+h), and the −1 noise and
        the flood of all whose noise is there."""
        q, held = self.mute_probability, self.input_pairs + self.stand_in
        share = ball(Fraction(reports + absent, self.users))
        noise = share * (self.minus_noise.mean() + self.flood.mean())
        spread = share * (self.minus_noise.variance() + self.flood.variance())
        return (
            to_float(lambda: ball(reports * (1 - q) * held) + noise),
            to_float(lambda: ball(reports * q * (1 - q) * held**2) + spread) ** 0.5,
        )


SCHEMA = Record(
    {
        "kind": OneOf((PaperCell.kind,)),
        "users": Whole(1, MOST_USERS),
        "largest": Whole(1, LARGEST_VALUE),
        "up_epsilon": CELL_EPSILON,
        "down_epsilon": CELL_EPSILON,
        "mute_probability": PROBABILITY,
        "input_pairs": Whole(0, MOST_INPUT_PAIRS),
        "flood_mean": Rational(Fraction(0), LARGEST_FLOOD_MEAN),
        "stand_in": Whole(0, LARGEST_VALUE),
    }
)
"""The JSON schema of a paper's cell."""
