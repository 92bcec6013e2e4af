"""Thinning and a geometric noise: pure, with less than one message per user.

A user with x = 1 sends one "1" with probability b ≤ 1 − e^−ε; all send their shares of a geometric
noise with ratio e^−c. The view is T. With W the law of everything but one user's bit:

    P₁(t)/P₀(t) = 1 − b + b W(t−1)/W(t)  lies between  1 − b  and  1 − b + b e^c,

because W contains the geometric noise. Both ends are checked against e^±ε in ball arithmetic.
The error grows with the count, so this is for sparse data; it is [GKM23] with no pairs, and the
user-side relative of a shuffler that samples (Murakami et al. 2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from shuffledp.baselines.base import Bag, Counter, Messages, Setting
from shuffledp.baselines.claim import Claim, pure_claim
from shuffledp.baselines.draws import Counts, draw, share_of, successes, whole_values
from shuffledp.errors import PrivacyViolation
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, round_to, sign, to_float
from shuffledp.numbers.laws import Bernoulli, Geometric, NegativeBinomial


@dataclass(frozen=True, kw_only=True)
class Thinning(Counter):
    """A counter that keeps each 1 with probability b and adds geometric noise."""

    users: int
    epsilon: Fraction
    keep: Fraction
    """b: the probability that a user with 1 sends it."""
    decay: Fraction
    """c: the decay of the noise."""
    bits_per_message: ClassVar[int] = 1

    @classmethod
    def plan(cls, setting: Setting) -> Thinning:
        epsilon = setting.epsilon
        keep = round_to(to_float(lambda: -(-ball(epsilon)).expm1()), 9, up=False)
        most = to_float(lambda: ((ball(epsilon).exp() - ball(1 - keep)) / ball(keep)).log())
        return cls(
            users=setting.users,
            epsilon=epsilon,
            keep=keep,
            decay=round_to(most * (1 - 1e-15), 9, up=False),
        )

    @cached_property
    def claim(self) -> Claim:
        low = lambda: ball(1 - self.keep) - (-ball(self.epsilon)).exp()  # noqa: E731
        high = lambda: (  # noqa: E731
            ball(self.epsilon).exp()
            - ball(1 - self.keep)
            - ball(self.keep) * ball(self.decay).exp()
        )
        if sign(low)[0] < 0 or sign(high)[0] < 0:
            raise PrivacyViolation(
                "Thinning keeps too much to be ε-private.", {"keep": str(self.keep)}
            )
        return pure_claim(self.epsilon, "shuffler", "computed", "1−b ≥ e^−ε, 1−b+be^c ≤ e^ε")

    @cached_property
    def noise(self) -> NegativeBinomial:
        return Geometric(self.decay)

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        sent = whole_values(np.array([value]), 1) * draw(Bernoulli(self.keep), 1, entropy)
        sent += draw(self.noise.share(self.users), 1, entropy)
        return np.ones(int(sent[0]), np.int64)

    def collect(self, messages: Messages, users: int) -> Bag:
        return Bag(users, np.array([len(messages)]))

    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        noise = draw(share_of(self.noise, users, self.users), 1, entropy)
        return noise + successes(ones, self.keep, entropy)

    def estimate(self, counts: Counts, users: int) -> float:
        centre = users / self.users * to_float(self.noise.mean)
        return (int(counts[0]) - centre) / float(self.keep)

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        b, held = float(self.keep), users if total is None else total
        noise = users / self.users * to_float(self.noise.variance)
        return (held * b * (1 - b) + noise) / b**2

    def messages(self, value: int) -> float:
        return value * float(self.keep) + to_float(self.noise.mean) / self.users
