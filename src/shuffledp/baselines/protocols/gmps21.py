"""[GMPS21] Differentially private aggregation in the shuffle model: almost central accuracy in
almost a single message (Ghazi, Kumar, Manurangsi, Pagh, Sinha, ICML 2021).

x in [0, 1] becomes an integer X in 0..D and is sent unchanged (a 0 is not sent). Two geometric
noises of +1 and −1 make the sum private; zero-sum noise {+1, −1} and, for |i| ≥ 2, {i, ⌊−i/2⌋,
⌈−i/2⌉} hides which messages made it. The noise is shared in negative binomial parts, so each user
adds little.

Every value is a sum of zero-sum noises: a message i is one more copy of the noise
{i, ⌊−i/2⌋, ⌈−i/2⌉} less the two halves, which are taken apart in the same way, down to messages +1
and −1; a −1 is a pair {+1, −1} less a +1. So a view with X in it is the view with X′ of noises that
are shifted by whole numbers, and the shift costs

* |X − X′| ε*/D for the geometric noises, purely: of the two, the one that must grow is used;
* for a zero-sum noise shifted by s: |s| times what one step costs, and δ only where it must
  shrink: `low_delta` of its law, once for each step (and e^ε for those before it).

`shares` bounds these shifts over all pairs (X, X′).
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

from shuffledp.baselines.base import Bag, Messages, Promised, QueryName, Setting
from shuffledp.baselines.claim import Claim
from shuffledp.baselines.divergence import least, low_delta, settles
from shuffledp.baselines.draws import draw, draw_once, round_randomly, share_of
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, round_to, to_float
from shuffledp.numbers.laws import DiscreteLaplace, Geometric, NegativeBinomial


@lru_cache(maxsize=1 << 14)
def parts(message: int) -> dict[int, int]:
    """A message as {size: how many copies}: sizes |i| ≥ 2 are zero-sum noises, signed as they
    come; 1 and −1 are the messages left over."""
    if abs(message) == 1:
        return {message: 1}
    found = {message: 1}
    for half in (-message // 2, -(message // 2)):
        for size, copies in parts(half).items():
            found[size] = found.get(size, 0) - copies
    return found


@dataclass(frozen=True)
class Shares:
    """Bounds on the shift between any two values 0..D."""

    weighted: int
    """Bounds Σ |i| |s_i| over the zero-sum noises of sizes |i| ≥ 2."""
    copies: int
    """Bounds Σ |s_i| over the same noises."""
    pairs: int
    """Bounds the shift of the pairs {+1, −1}."""


@lru_cache(maxsize=64)
def shares(units: int) -> Shares:
    """The bounds for D: twice those of the worst value, because a replacement takes one value away
    and adds another."""
    weighted = copies = 0
    lows = [0]
    for value in range(1, units + 1):
        found = parts(value)
        large = {size: count for size, count in found.items() if abs(size) > 1}
        weighted = max(weighted, sum(abs(size * count) for size, count in large.items()))
        copies = max(copies, sum(abs(count) for count in large.values()))
        lows.append(found.get(-1, 0))
    return Shares(2 * weighted, 2 * copies, max(lows) - min(lows) + units)


def tree_delta(
    units: int, pairs: NegativeBinomial, splits: tuple[NegativeBinomial, ...], budget: Fraction
) -> arb:
    """A bound of δ when half of `budget` goes to the pairs and half to the other noises, each
    step of size i in proportion to |i|; a ball, infinite where a noise's decay exceeds its step.

    Requires: shapes of at least 1, so that growing by one costs at most the decay, purely.
    """
    most = shares(units)
    pair_step = budget / 2 / most.pairs
    unit = budget / 2 / max(most.weighted, 1)
    steps = [unit * size for size in range(2, units + 1)]
    if pairs.decay > pair_step or any(
        law.decay > step for law, step in zip(splits[1:], steps, strict=True)
    ):
        return arb("inf")
    grow = ball(budget).exp()
    total = most.pairs * grow * low_delta(pairs, pair_step)
    worst = arb(0)
    for law, step in zip(splits[1:], steps, strict=True):
        here = low_delta(law, step)
        worst = worst if here < worst else here
    return total + most.copies * grow * worst


ZERO_SUM_PART = Fraction(1, 10)  # of ε, for the noise that adds up to zero


@dataclass(frozen=True, kw_only=True)
class GMPS21(Promised):
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
    query: ClassVar[QueryName] = "real-sum"

    @classmethod
    def plan(cls, setting: Setting) -> GMPS21:
        """The protocol with the least noise whose computed δ is small enough, D = ⌈2ε√n⌉."""
        return cls.calibrated(setting, default_units(setting))

    @classmethod
    def calibrated(cls, setting: Setting, units: int, gamma: Fraction = ZERO_SUM_PART) -> GMPS21:
        """The same for any D: the decay of every noise is half the ε of one step, and all noises
        have the same shape."""
        delta, budget = setting.required_delta, gamma * setting.epsilon
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
        return cls(
            users=setting.users,
            units=units,
            inner_epsilon=setting.epsilon - budget,
            pairs=pairs,
            splits=splits,
            promise=setting.claim("computed", note),
        )

    @classmethod
    def published(cls, setting: Setting) -> GMPS21:
        """The protocol with the published constants and D = ⌈2ε√n⌉."""
        return cls.with_units(setting, default_units(setting))

    @classmethod
    def with_units(cls, setting: Setting, units: int, gamma: Fraction = ZERO_SUM_PART) -> GMPS21:
        """The protocol with the published constants for any D."""
        delta = setting.required_delta
        part = min(Fraction(1), gamma * setting.epsilon) / 2
        reach = units * (math.ceil(math.log(units)) + 1)
        shape = round_to(3 * (1 + math.log((2 * units - 1) / (delta / 2))), 6, up=True)
        splits = tuple(
            NegativeBinomial(shape, part / (10 * math.ceil(reach / i))) for i in range(1, units + 1)
        )
        extra = round_to(3 * (1 + math.log(2 / delta)), 6, up=True)
        pairs = NegativeBinomial(extra, part / (5 * units))
        holds = settles(lambda: tree_delta(units, pairs, splits, gamma * setting.epsilon), delta)
        return cls(
            users=setting.users,
            units=units,
            inner_epsilon=(1 - gamma) * setting.epsilon,
            pairs=pairs,
            splits=splits,
            promise=setting.claim("computed" if holds else "theorem", "published constants"),
        )

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
        units = round_randomly(np.array([value]), self.units, entropy)
        sent = [units[units > 0]]
        for law, messages in self.atoms:
            copies = int(draw(law.share(self.users), 1, entropy)[0])
            sent.append(np.tile(np.array(messages), copies))
        return np.concatenate(sent)

    def collect(self, messages: Messages, users: int) -> Bag:
        """How often each of −D..D was sent by all users together."""
        return Bag(users, np.bincount(messages + self.units, minlength=2 * self.units + 1))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        units = round_randomly(values, self.units, entropy)
        counts = np.bincount(units + self.units, minlength=2 * self.units + 1)
        counts[self.units] = 0  # a 0 is not sent
        for law, messages in self.atoms:
            copies = draw_once(share_of(law, units.size, self.users), entropy)
            for message in messages:
                counts[message + self.units] += copies
        return Bag(units.size, counts, entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        total = int(bag.counts @ np.arange(-self.units, self.units + 1))
        return np.array([total / self.units])

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        noise = to_float(DiscreteLaplace(self.inner_epsilon / self.units).variance)
        return (users / self.users * noise + users / 4) / self.units**2

    def messages_per_user(self) -> float:
        return 1 + sum(to_float(law.mean) * len(sent) for law, sent in self.atoms) / self.users


def default_units(setting: Setting) -> int:
    """The number of units D = ⌈2ε√n⌉, at least 2."""
    return max(2, math.ceil(2 * float(setting.epsilon) * math.sqrt(setting.users)))
