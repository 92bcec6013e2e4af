"""A baseline from another package: every user sends her bit, or with probability ½ a fair coin.

`pip install ./examples/own_baseline` adds a row to `shuffledp compare count`.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from shuffledp.baselines.base import Bag, Counter, Messages, Setting, needs
from shuffledp.baselines.claim import Claim, pure_claim
from shuffledp.baselines.draws import Counts, successes
from shuffledp.baselines.registry import Entry
from shuffledp.numbers.entropy import SYSTEM, Entropy

FLIP = Fraction(1, 4)  # P(sent ≠ held): the loss is ln 3 for everyone who sees them


@dataclass(frozen=True)
class Coin(Counter):
    users: int
    epsilon: Fraction
    bits_per_message: ClassVar[int] = 1

    @classmethod
    def plan(cls, setting: Setting) -> Self:
        needs(setting.epsilon >= Fraction(11, 10), "A coin needs ε ≥ 1.1 (ln 3, rounded up).")
        return cls(setting.users, setting.epsilon)

    @cached_property
    def claim(self) -> Claim:
        return pure_claim(self.epsilon, "local", "computed", "3 ≤ e^1.1")

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        return np.array([value ^ int(successes(1, FLIP, entropy))])

    def collect(self, messages: Messages, users: int) -> Bag:
        return Bag(users, np.array([int(messages.sum())]))

    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        kept = successes(ones, 1 - FLIP, entropy) + successes(users - ones, FLIP, entropy)
        return np.array([int(kept)])

    def estimate(self, counts: Counts, users: int) -> float:
        return 2 * int(counts[0]) - users / 2

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        return 4 * users * float(FLIP * (1 - FLIP))

    def messages(self, value: int) -> float:
        return 1


ENTRY = Entry(name="coin", query="count", title="A coin", pure=True, make=Coin.plan)
