"""[GMPS21] Differentially private aggregation in the shuffle model: almost central accuracy in
almost a single message (Ghazi, Kumar, Manurangsi, Pagh, Sinha, ICML 2021).

x in [0, 1] becomes an integer X in 0..D and is sent as it is (a 0 is not sent). Two geometric
noises of +1 and −1 carry the privacy of the sum; zero-sum noise {+1, −1} and, for |i| ≥ 2,
{i, ⌊−i/2⌋, ⌈−i/2⌉} hides which messages made it. Negative binomial shares, so each user adds few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Baseline, Messages, Query, Task
from shuffledp.baselines.claim import Basis, Claim, approximate_claim
from shuffledp.baselines.divergence import least, settles
from shuffledp.baselines.draws import Counts, draw, draw_once, round_randomly, share_of, unit_values
from shuffledp.baselines.gmps21_tree import shares, tree_delta
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import round_to, to_float
from shuffledp.numbers.laws import DiscreteLaplace, Geometric, NegativeBinomial

ZERO_SUM_PART = Fraction(1, 10)  # of ε, for the noise that adds up to zero


@dataclass(frozen=True, kw_only=True)
class GMPS21(Baseline):
    """The sum of values in [0, 1] as whole numbers among noise that adds up to zero."""

    users: int
    units: int
    """D: a value in [0, 1] is rounded to one of 0..D."""
    inner_epsilon: Fraction
    """ε*: what the two geometric noises cost, when one user changes the sum by D."""
    pairs: NegativeBinomial
    """The law of how many extra pairs {+1, −1} all users send together."""
    splits: tuple[NegativeBinomial, ...]
    """Noise for |i| = 1..D; each law is used for i and for −i (for 1 only once)."""
    promise: Claim
    query: ClassVar[Query] = "real-sum"

    @classmethod
    def plan(cls, task: Task) -> GMPS21:
        """The protocol with the least noise whose computed δ is small enough, D = ⌈2ε√n⌉."""
        return cls.calibrated(task, default_units(task))

    @classmethod
    def calibrated(cls, task: Task, units: int, gamma: Fraction = ZERO_SUM_PART) -> GMPS21:
        """The same for any D: the decay of every noise is half the ε of one step, and all noises
        have the same shape."""
        delta, budget = task.required_delta, gamma * task.epsilon
        most = shares(units)
        pairs_decay = budget / 4 / most.pairs
        decays = [budget / 4 / max(most.weighted, 1) * size for size in range(1, units + 1)]

        def noises(shape: Fraction) -> tuple[NegativeBinomial, tuple[NegativeBinomial, ...]]:
            laws = (NegativeBinomial(shape, decay) for decay in decays)
            return NegativeBinomial(shape, pairs_decay), tuple(laws)

        def private(shape: Fraction) -> bool:
            enough = shape > 1
            return enough and settles(lambda: tree_delta(units, *noises(shape), budget), delta)

        pairs, splits = noises(least(private, 16.0, digits=3))
        note = "shifted noises: sum of their hockey-stick divergences ≤ δ"
        claim = approximate_claim(task.epsilon, delta, "computed", note)
        return cls(
            users=task.users,
            units=units,
            inner_epsilon=task.epsilon - budget,
            pairs=pairs,
            splits=splits,
            promise=claim,
        )

    @classmethod
    def published(cls, task: Task) -> GMPS21:
        """The protocol with the published constants and D = ⌈2ε√n⌉."""
        return cls.with_units(task, default_units(task))

    @classmethod
    def with_units(cls, task: Task, units: int, gamma: Fraction = ZERO_SUM_PART) -> GMPS21:
        """The protocol with the published constants for any D."""
        delta = task.required_delta
        part = min(Fraction(1), gamma * task.epsilon) / 2
        reach = units * (math.ceil(math.log(units)) + 1)
        shape = round_to(3 * (1 + math.log((2 * units - 1) / (delta / 2))), 6, up=True)
        splits = tuple(
            NegativeBinomial(shape, part / (10 * math.ceil(reach / i))) for i in range(1, units + 1)
        )
        extra = round_to(3 * (1 + math.log(2 / delta)), 6, up=True)
        pairs = NegativeBinomial(extra, part / (5 * units))
        holds = settles(lambda: tree_delta(units, pairs, splits, gamma * task.epsilon), delta)
        basis: Basis = "computed" if holds else "theorem"
        claim = approximate_claim(task.epsilon, delta, basis, "published constants")
        return cls(
            users=task.users,
            units=units,
            inner_epsilon=(1 - gamma) * task.epsilon,
            pairs=pairs,
            splits=splits,
            promise=claim,
        )

    @cached_property
    def claim(self) -> Claim:
        return self.promise

    @property
    def bits_per_message(self) -> int:
        return 1 + (self.units - 1).bit_length()

    @cached_property
    def noise(self) -> NegativeBinomial:
        return Geometric(self.inner_epsilon / self.units)

    @cached_property
    def atoms(self) -> list[tuple[NegativeBinomial, tuple[int, ...]]]:
        """Every noise law with the messages that one unit of it sends."""
        listed: list[tuple[NegativeBinomial, tuple[int, ...]]] = [
            (self.noise, (1,)),
            (self.noise, (-1,)),
            (self.pairs, (1, -1)),
            (self.splits[0], (1, -1)),
        ]
        for size in range(2, self.units + 1):
            for i in (size, -size):
                listed.append((self.splits[size - 1], (i, -i // 2, -(i // 2))))
        return listed

    def randomize(self, value: float, entropy: Entropy = SYSTEM) -> Messages:
        units = round_randomly(unit_values(np.array([value])), self.units, entropy)
        sent = [units[units > 0]]
        for law, messages in self.atoms:
            copies = int(draw(law.share(self.users), 1, entropy)[0])
            sent.append(np.tile(np.array(messages), copies))
        return np.concatenate(sent)

    def collect(self, messages: Messages, users: int) -> Bag:
        """How often each of −D..D was sent by all users together."""
        return Bag(users, np.bincount(messages + self.units, minlength=2 * self.units + 1))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        units = round_randomly(unit_values(values), self.units, entropy)
        counts = self._of_values(units)
        for law, messages in self.atoms:
            copies = draw_once(share_of(law, units.size, self.users), entropy)
            for message in messages:
                counts[message + self.units] += copies
        return Bag(units.size, counts, entropy.seeded)

    def _of_values(self, units: Counts) -> Counts:
        counts = np.bincount(units + self.units, minlength=2 * self.units + 1)
        counts[self.units] = 0
        return counts

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        total = int(bag.counts @ np.arange(-self.units, self.units + 1))
        return np.array([total / self.units])

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        noise = to_float(DiscreteLaplace(self.inner_epsilon / self.units).variance)
        return (users / self.users * noise + users / 4) / self.units**2

    def messages_per_user(self) -> float:
        return 1 + sum(to_float(law.mean) * len(sent) for law, sent in self.atoms) / self.users


def default_units(task: Task) -> int:
    """The number of units D = ⌈2ε√n⌉, at least 2."""
    return max(2, math.ceil(2 * float(task.epsilon) * math.sqrt(task.users)))
