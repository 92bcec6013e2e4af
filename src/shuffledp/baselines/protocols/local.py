"""The local model: every message is private by itself, so nobody needs to be trusted.

One bit: randomized response. Reals: random rounding to a bit first. Histograms: randomized
response over the buckets, and Hadamard response (Acharya, Sun, Zhang, AISTATS 2019).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Baseline, Counter, Messages, Promised, QueryName, Setting
from shuffledp.baselines.claim import Claim, pure_claim
from shuffledp.baselines.draws import (
    Counts,
    draw,
    round_randomly,
    split_evenly,
    successes,
    uniform,
    whole_values,
)
from shuffledp.errors import PrivacyViolation
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, round_to, sign, to_float
from shuffledp.numbers.laws import Bernoulli

CHANCE_DIGITS = 12  # to which the chance of telling the truth is rounded down


def keep_chance(epsilon: Fraction, others: int) -> Fraction:
    """The largest chance of telling the truth among `others` equally likely lies."""
    exactly = to_float(lambda: 1 / (1 + others * (-ball(epsilon)).exp()))
    return round_to(exactly * (1 - 1e-14), CHANCE_DIGITS, up=False)


def check_ratio(truth: Fraction, lie: Fraction, epsilon: Fraction) -> None:
    """Raises unless truth/lie ≤ e^ε and lie/truth ≤ e^ε, decided in ball arithmetic."""
    left = lambda: ball(epsilon) - abs((ball(truth) / ball(lie)).log())  # noqa: E731
    if sign(left)[0] < 0:
        raise PrivacyViolation("A single message is not ε-private.", {"truth": str(truth)})


@dataclass(frozen=True)
class RandomizedResponse(Promised, Counter):
    """A counter of which every user sends its bit, flipped with probability f."""

    users: int
    flip: Fraction
    promise: Claim
    bits_per_message: ClassVar[int] = 1

    @classmethod
    def plan(cls, setting: Setting) -> RandomizedResponse:
        """The counter that is ε-DP message by message: f = 1/(1 + e^ε), rounded up."""
        flip = 1 - keep_chance(setting.epsilon, 1)
        check_ratio(1 - flip, flip, setting.epsilon)
        claim = pure_claim(setting.epsilon, "local", "computed", "(1−f)/f ≤ e^ε")
        return cls(setting.users, flip, claim)

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        bit = whole_values(np.array([value]), 1)
        return bit ^ draw(Bernoulli(self.flip), 1, entropy)

    def collect(self, messages: Messages, users: int) -> Bag:
        return Bag(users, np.array([int(messages.sum())]))

    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        kept = ones - successes(ones, self.flip, entropy)
        return np.array([kept + successes(users - ones, self.flip, entropy)])

    def estimate(self, counts: Counts, users: int) -> float:
        return float((int(counts[0]) - users * self.flip) / (1 - 2 * self.flip))

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        """n f(1−f)/(1−2f)², which does not depend on the data."""
        return float(users * self.flip * (1 - self.flip) / (1 - 2 * self.flip) ** 2)

    def messages(self, value: int) -> float:
        return 1.0


@dataclass(frozen=True)
class OneBitSum(Baseline):
    """A value in [0, 1], rounded to a bit at random, through randomized response."""

    bit: RandomizedResponse
    query: ClassVar[QueryName] = "real-sum"
    bits_per_message: ClassVar[int] = 1

    @classmethod
    def plan(cls, setting: Setting) -> OneBitSum:
        return cls(RandomizedResponse.plan(setting))

    @property
    def users(self) -> int:  # type: ignore[override]
        return self.bit.users

    @cached_property
    def claim(self) -> Claim:
        return self.bit.claim

    def randomize(self, value: float, entropy: Entropy = SYSTEM) -> Messages:
        rounded = round_randomly(np.array([value]), 1, entropy)
        return self.bit.randomize(int(rounded[0]), entropy)

    def collect(self, messages: Messages, users: int) -> Bag:
        return self.bit.collect(messages, users)

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        return self.bit.aggregate(round_randomly(values, 1, entropy), entropy)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        return self.bit.analyze(bag)

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        """Worst where all values are ½: rounding alone then gives n/4."""
        return self.bit.mean_squared_error(users) + users / 4

    def messages_per_user(self) -> float:
        return 1.0


@dataclass(frozen=True, kw_only=True)
class LocalHistogram(Baseline):
    """A histogram to which every user sends one message: mostly the truth, otherwise a lie."""

    users: int
    buckets: int
    truth: Fraction
    """The probability of the truth."""
    epsilon: Fraction
    query: ClassVar[QueryName] = "histogram"

    @classmethod
    def among(cls, setting: Setting, answers: int, **more: int) -> Self:
        """The histogram whose messages are as true as ε allows, among this many answers."""
        return cls(
            users=setting.users,
            buckets=setting.required_buckets,
            truth=keep_chance(setting.epsilon, answers - 1),
            epsilon=setting.epsilon,
            **more,
        )

    @property
    @abstractmethod
    def lie(self) -> Fraction:
        """The probability of one particular lie."""

    @property
    def fit(self) -> Fraction:
        """How likely a message fits a bucket that its sender does not hold."""
        return self.lie

    @cached_property
    def claim(self) -> Claim:
        check_ratio(self.truth, self.lie, self.epsilon)
        return pure_claim(self.epsilon, "local", "computed", "truth/lie ≤ e^ε")

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        p, q = float(self.truth), float(self.fit)

        def error(held: float) -> float:
            return (held * p * (1 - p) + (users - held) * q * (1 - q)) / (p - q) ** 2

        return error(total) if total is not None else max(error(0), error(users))

    def messages_per_user(self) -> float:
        return 1.0


class BucketResponse(LocalHistogram):
    """Randomized response over B buckets: the truth, or one of the others evenly."""

    @classmethod
    def plan(cls, setting: Setting) -> BucketResponse:
        return cls.among(setting, setting.required_buckets)

    @property
    def lie(self) -> Fraction:
        return (1 - self.truth) / (self.buckets - 1)

    @property
    def bits_per_message(self) -> int:
        return (self.buckets - 1).bit_length()

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        own = whole_values(np.array([value]), self.buckets - 1)
        if draw(Bernoulli(self.truth), 1, entropy)[0]:
            return own
        other = uniform(1, self.buckets - 1, entropy)
        return other + (other >= own)

    def collect(self, messages: Messages, users: int) -> Bag:
        return Bag(users, np.bincount(messages, minlength=self.buckets))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        codes = whole_values(values, self.buckets - 1)
        counts = np.zeros(self.buckets, np.int64)
        for bucket, users in enumerate(np.bincount(codes, minlength=self.buckets)):
            honest = successes(int(users), self.truth, entropy)
            lies = split_evenly(int(users) - honest, self.buckets - 1, entropy)
            counts[bucket] += honest
            counts[:bucket] += lies[:bucket]
            counts[bucket + 1 :] += lies[bucket:]
        return Bag(codes.size, counts, entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        return np.asarray(bag.counts - bag.users * float(self.lie)) / float(self.truth - self.lie)


class HadamardResponse(LocalHistogram):
    """A histogram of columns of a Hadamard matrix: mostly one where the bucket's row is +1."""

    @classmethod
    def plan(cls, setting: Setting) -> HadamardResponse:
        return cls.among(setting, 2)

    @property
    def lie(self) -> Fraction:
        return 1 - self.truth

    @property
    def bits_per_message(self) -> int:
        """log₂ of the matrix's size, the least power of two above B: row 0 stays unused."""
        return self.buckets.bit_length()

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        return self._columns(np.array([value]), entropy)

    def _columns(self, values: NDArray[Any], entropy: Entropy) -> Messages:
        """A uniform column of the right half: any column, moved across if its sign is wrong.

        Adding a column whose sign in this row is −1 turns the sign around, and maps one half
        onto the other.
        """
        rows = whole_values(values, self.buckets - 1) + 1
        columns = uniform(rows.size, 1 << self.bits_per_message, entropy)
        wanted = 1 - draw(Bernoulli(self.truth), rows.size, entropy)  # parity 0: sign +1
        turn = rows & -rows  # the lowest set bit of the row: parity 1
        wrong = (np.bitwise_count(rows & columns) & 1) != wanted
        return np.where(wrong, columns ^ turn, columns)

    def collect(self, messages: Messages, users: int) -> Bag:
        return Bag(users, np.bincount(messages, minlength=1 << self.bits_per_message))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        columns = self._columns(np.asarray(values), entropy)
        bag = self.collect(columns, columns.size)
        return Bag(bag.users, bag.counts, entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        """(plus − minus)/(2t − 1) over each row: other users cancel on average."""
        signed = walsh_hadamard(bag.counts)[1 : self.buckets + 1]
        return signed / float(2 * self.truth - 1)

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        """(n − (2t−1)² c)/(2t−1)², worst where c = 0."""
        gap = float(2 * self.truth - 1)
        return users / gap**2 - (total or 0.0)


def walsh_hadamard(counts: Counts) -> Counts:
    """Σ_c counts[c]·(−1)^⟨row, c⟩ for every row; the size must be a power of two."""
    result = counts.astype(np.int64)
    step = 1
    while step < result.size:
        pairs = result.reshape(-1, 2, step)
        result = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        step *= 2
    return result


def local_epsilon(flip: Fraction) -> arb:
    """ε₀ = ln((1−f)/f) of one flipped bit, at the current precision."""
    return (ball(1 - flip) / ball(flip)).log()
