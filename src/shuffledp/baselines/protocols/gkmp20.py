"""[GKMP20] Private counting from anonymous messages (Ghazi, Kumar, Manurangsi, Pagh, ICML 2020).

A user with x = 1 sends one +1; every user sends its share of two geometric noises and of pairs
(+1, −1) that cancel. It is only (ε, δ)-private: few −1 messages reveal that a user added nothing.

* "1 over 0" is pure ε′, by the +1 noise alone.
* "0 over 1": moving one unit from the −1 noise to the pairs bounds δ by
  Σ_f max(P(f) − e^(ε−ε′) P(f−1), 0) for every number of users: `low_delta` of the pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from shuffledp.baselines.base import Bag, Counter, Messages, Promised, Setting
from shuffledp.baselines.buckets import PerBucket
from shuffledp.baselines.claim import Claim
from shuffledp.baselines.divergence import least, low_delta, settles
from shuffledp.baselines.draws import Counts, draw, share_of, whole_values
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import positive, round_to, to_float
from shuffledp.numbers.laws import DiscreteLaplace, Geometric, NegativeBinomial

PAIRS_PART = Fraction(1, 10)
"""γ: the part of ε that the pairs take; the error is that of DLap((1−γ)ε)."""

PAIR_DECAYS = [Fraction(k, 100) for k in (1, 2, 3, 5, 7, 10, 15, 20, 30)]


@dataclass(frozen=True, kw_only=True)
class GKMP20(Promised, Counter):
    """A counter with two geometric noises and pairs (+1, −1) that cancel."""

    users: int
    inner_epsilon: Fraction
    """ε′: the decay of the two geometric noises."""
    pairs: NegativeBinomial
    """The law of the number of pairs (+1, −1) that all users send together."""
    promise: Claim
    bits_per_message: ClassVar[int] = 1

    @classmethod
    def plan(cls, setting: Setting) -> GKMP20:
        """The counter with the fewest pairs whose computed δ is small enough."""
        inner = (1 - PAIRS_PART) * setting.epsilon
        pairs = fewest_pairs(setting.epsilon - inner, setting.required_delta)
        claim = setting.claim("computed", "hockey-stick divergence of the pairs ≤ δ")
        return cls(users=setting.users, inner_epsilon=inner, pairs=pairs, promise=claim)

    @classmethod
    def published(cls, setting: Setting) -> GKMP20:
        """The counter with the published NB(3(1 + ln 1/δ), 1 − e^(−0.2γε)) pairs, δ computed."""
        inner = (1 - PAIRS_PART) * setting.epsilon
        pairs = published_pairs(PAIRS_PART * setting.epsilon, setting.required_delta)
        holds = settles(lambda: low_delta(pairs, setting.epsilon - inner), setting.required_delta)
        claim = setting.checked(holds)
        return cls(users=setting.users, inner_epsilon=inner, pairs=pairs, promise=claim)

    @cached_property
    def noise(self) -> NegativeBinomial:
        return Geometric(self.inner_epsilon)

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        plus, minus = whole_values(np.array([value]), 1), np.zeros(1, np.int64)
        plus += draw(self.noise.share(self.users), 1, entropy)
        minus += draw(self.noise.share(self.users), 1, entropy)
        both = draw(self.pairs.share(self.users), 1, entropy)
        return np.repeat([1, -1], [int((plus + both)[0]), int((minus + both)[0])])

    def collect(self, messages: Messages, users: int) -> Bag:
        return Bag(users, np.array([(messages == 1).sum(), (messages == -1).sum()]))

    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        noise = draw(share_of(self.noise, users, self.users), 2, entropy)
        both = draw(share_of(self.pairs, users, self.users), 1, entropy)
        return np.array([ones, 0]) + noise + both

    def estimate(self, counts: Counts, users: int) -> float:
        return float(counts[0] - counts[1])

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        return users / self.users * to_float(DiscreteLaplace(self.inner_epsilon).variance)

    def error_law(self, users: int) -> tuple[DiscreteLaplace, Fraction] | None:
        same = users == self.users
        return (DiscreteLaplace(self.inner_epsilon), Fraction(1)) if same else None

    def messages(self, value: int) -> float:
        noise = to_float(self.noise.mean) + to_float(self.pairs.mean)
        return value + 2 * noise / self.users


@lru_cache(maxsize=256)
def fewest_pairs(gap: Fraction, delta: Fraction) -> NegativeBinomial:
    """The negative binomial number of pairs with the least mean, over a few decays, whose computed
    δ is small enough."""
    options = [NegativeBinomial(_least_shape(decay, gap, delta), decay) for decay in PAIR_DECAYS]
    return min(options, key=lambda pairs: to_float(pairs.mean))


def _least_shape(decay: Fraction, gap: Fraction, delta: Fraction) -> Fraction:
    """The smallest shape, above 1 so that the law is log-concave, whose δ is computed."""

    def private(shape: Fraction) -> bool:
        return shape > 1 and settles(lambda: low_delta(NegativeBinomial(shape, decay), gap), delta)

    return least(private, 8.0)


def published_pairs(gap: Fraction, delta: Fraction) -> NegativeBinomial:
    """NB(3(1 + ln 1/δ), 1 − e^(−0.2·gap)), its shape rounded up."""
    shape = round_to(3 * (1 - math.log(delta)), 6, up=True)
    return NegativeBinomial(shape, positive(gap, "the pairs' share of epsilon") / 5)


def histogram(setting: Setting) -> PerBucket:
    """A counter per bucket; a replacement costs ε′ (the bucket that goes up, purely) and
    (ε′ + Δ, δ) (the one that goes down): 2ε′ + Δ = ε."""
    inner = (1 - PAIRS_PART) * setting.epsilon / 2
    pairs = fewest_pairs(setting.epsilon - 2 * inner, setting.required_delta)
    claim = setting.claim("computed", "pure ε′ up, (ε′ + Δ, δ) down")
    return PerBucket(
        GKMP20(users=setting.users, inner_epsilon=inner, pairs=pairs, promise=claim),
        setting.required_buckets,
        claim,
    )
