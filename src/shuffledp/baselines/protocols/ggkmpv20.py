"""[GGKMPV20] Pure DP summation from anonymous messages (Ghazi, Golowich, Kumar, Manurangsi, Pagh,
Velingker, ITC 2020): pure ε with a fixed number of one-bit messages per user.

Everybody sends 2w+1 bits. With probability 1−p there are w + x ones among them; with probability
p there are Z, drawn from a discrete Laplace law cut to 0..2w+1, whatever x is: so even the border
of the support is reached with the same probability by both inputs. The theorem's constants are
not at hand; the parameters here are calibrated by the computed max-divergence of the view.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Baseline, Counter, Messages, Query, Task, needs
from shuffledp.baselines.buckets import PerBucket
from shuffledp.baselines.claim import Basis, Claim, pure_claim
from shuffledp.baselines.draws import (
    Counts,
    draw,
    round_randomly,
    successes,
    unit_values,
    whole_values,
)
from shuffledp.baselines.ggkmpv20_loss import Loss, Shape, bulk_loss, least_noisy, loss, shape_of
from shuffledp.baselines.laws import CutLaplace
from shuffledp.errors import PlanningError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import round_to, to_float
from shuffledp.numbers.laws import Bernoulli

LOSS_MARGIN = 1 - 1e-6  # of ε: the computed loss errs by less than 10⁻⁸
MOST_COMPUTED_BITS = 1_200_000  # of all users together: up to here every view is computed
NOISE_SCALES = np.geomspace(0.8, 2.8, 12)  # σε


@dataclass(frozen=True, kw_only=True)
class GGKMPV20(Counter):
    """A counter of which every user sends the same number of bits."""

    users: int
    epsilon: Fraction
    noisy: Fraction
    """p: the probability of sending only noise."""
    slope: Fraction
    """1/σ: how fast the noise falls off."""
    width: int
    """w: every user sends 2w + 1 bits."""
    bits_per_message: ClassVar[int] = 1

    @classmethod
    def plan(cls, task: Task) -> GGKMPV20:
        """The counter with the fewest messages whose error is within 5 % of the least."""
        return calibrated(task.users, task.epsilon)

    @cached_property
    def claim(self) -> Claim:
        shape = shape_of(self.users, self.noisy, self.slope, self.width)
        limit = float(self.epsilon) * LOSS_MARGIN
        whole = self.users * (2 * self.width + 1) <= MOST_COMPUTED_BITS
        basis: Basis = "computed" if whole else "not verified"
        note = "max-divergence of the view with none, half and all ones among the others"
        if not whole:
            note = "max-divergence computed near the mean, and the necessary condition of tilts"
        for ones in (0, self.users // 2):
            found = loss(shape, ones) if whole else Loss(bulk_loss(shape, ones), covered=False)
            if found.value > limit:
                basis = "violated"
            elif whole and not found.covered:
                basis, note = "not verified", "some views were too unlikely for floats"
        return pure_claim(self.epsilon, "shuffler", basis, note)

    @cached_property
    def noise(self) -> CutLaplace:
        return CutLaplace(self.width, self.slope)

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        ones = int(whole_values(np.array([value]), 1)[0]) + self.width
        if draw(Bernoulli(self.noisy), 1, entropy)[0]:
            ones = int(draw(self.noise, 1, entropy)[0])
        return np.repeat([1, 0], [ones, 2 * self.width + 1 - ones])

    def collect(self, messages: Messages, users: int) -> Bag:
        return Bag(users, np.array([int(messages.sum())]))

    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        silent_ones = successes(ones, self.noisy, entropy)
        silent = silent_ones + successes(users - ones, self.noisy, entropy)
        noise = draw(self.noise, silent, entropy).sum()
        return np.array([noise + (users - silent) * self.width + ones - silent_ones])

    def estimate(self, counts: Counts, users: int) -> float:
        centre = users * self.width + users * self.noisy / 2
        return float((int(counts[0]) - centre) / (1 - self.noisy))

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        """n(p v + p(1−p)/4)/(1−p)², v = Var Z, whatever the data."""
        p = float(self.noisy)
        return users * (p * to_float(self.noise.variance) + p * (1 - p) / 4) / (1 - p) ** 2

    def messages(self, value: int) -> float:
        return 2.0 * self.width + 1


@lru_cache(maxsize=256)
def calibrated(
    users: int, epsilon: Fraction, slack: float = 1.05, *, coarse: bool = False
) -> GGKMPV20:
    """The cheapest counter within `slack` of the least error found, its loss computed."""
    options = frontier(users, epsilon, coarse=coarse)
    needs(
        bool(options),
        f"{users:,} users cannot send the noise that this ε needs; plan for more users.",
    )
    best = min(option.mean_squared_error(users) for option in options)
    option = min(
        (option for option in options if option.mean_squared_error(users) <= slack * best),
        key=lambda option: option.width,
    )
    for _ in range(40):
        if option.claim.basis != "violated":
            return option
        option = replace(option, noisy=round_to(float(option.noisy) * 1.01, 6, up=True))
    raise PlanningError("No parameters of GGKMPV20 were found private; change epsilon slightly.")


@lru_cache(maxsize=64)
def frontier(users: int, epsilon: Fraction, *, coarse: bool = False) -> tuple[GGKMPV20, ...]:
    """For growing widths, the counter with the least error that the tilts and the bulk allow; on
    a coarse grid where many counters are needed."""
    scales, steps = (NOISE_SCALES[2:11:4], 14) if coarse else (NOISE_SCALES, 28)
    e = float(epsilon)
    found: list[GGKMPV20] = []
    widest = math.ceil((2 * math.log(users) + 6) / e) + 4
    bulks = {float(scale): _bulk(users, e, e / float(scale), widest) for scale in scales}
    widths = np.unique(np.geomspace(1, widest, steps).round().astype(int))
    for width in widths:
        options = []
        for scale, bulk in bulks.items():
            slope = round_to(e / scale, 4, up=True)
            noisy = max(least_noisy(e, float(slope), int(width)), bulk) * (1 + 1e-4)
            if noisy < 0.5:
                exact = round_to(noisy, 6, up=True)
                options.append(
                    GGKMPV20(
                        users=users, epsilon=epsilon, noisy=exact, slope=slope, width=int(width)
                    )
                )
        if options:
            found.append(min(options, key=lambda option: option.mean_squared_error(users)))
    return tuple(found)


def _bulk(users: int, epsilon: float, slope: float, width: int) -> float:
    """The smallest p for which views near the mean keep ε."""
    low, high = math.log(0.2 / users), math.log(min(0.5, 60 / users))
    wide = min(width, math.ceil(16 / slope))
    while high - low > 0.03:
        middle = (low + high) / 2
        near = bulk_loss(Shape(users=users, noisy=math.exp(middle), slope=slope, width=wide), 0)
        low, high = (low, middle) if near <= epsilon * LOSS_MARGIN else (middle, high)
    return math.exp(high)


def histogram(task: Task) -> PerBucket:
    """A counter at ε/2 for every bucket ([GGKMPV20] Appendix A)."""
    counter = calibrated(task.users, task.epsilon / 2)
    basis, note = counter.claim.basis, "ε/2 up, ε/2 down; " + counter.claim.note
    claim = pure_claim(task.epsilon, "shuffler", basis, note)
    return PerBucket(counter, task.required_buckets, claim)


@dataclass(frozen=True)
class BitByBit(Baseline):
    """A value in [0, 1], rounded to so many bits, each bit through a counter of its own."""

    counters: tuple[GGKMPV20, ...]
    epsilon: Fraction
    query: ClassVar[Query] = "real-sum"

    @classmethod
    def plan(cls, task: Task) -> BitByBit:
        """The protocol with ½ log₂ n bits; bit j, of weight 2^−j, gets ε in proportion to
        2^(−2j/3), which balances the errors where the error is proportional to 1/ε."""
        bits = max(1, math.ceil(math.log2(task.users) / 2))
        weights = [Fraction(2.0 ** (-2 * j / 3)).limit_denominator(1000) for j in range(bits)]
        parts = [task.epsilon * weight / sum(weights) for weight in weights]
        parts = [round_to(float(part), 4, up=False) for part in parts]
        counters = [calibrated(task.users, part, 2.0, coarse=True) for part in parts]
        return cls(tuple(counters), task.epsilon)

    @property
    def users(self) -> int:  # type: ignore[override]
        return self.counters[0].users

    @property
    def units(self) -> int:
        """The largest whole number that the bits can write."""
        return (1 << len(self.counters)) - 1

    @property
    def weights(self) -> NDArray[np.float64]:
        """What one unit of each counter is worth, highest bit first."""
        return 2.0 ** np.arange(len(self.counters) - 1, -1, -1) / self.units

    @cached_property
    def claim(self) -> Claim:
        assert sum(counter.epsilon for counter in self.counters) <= self.epsilon
        bases = {counter.claim.basis for counter in self.counters}
        order: tuple[Basis, ...] = ("violated", "not verified", "computed")
        worst = next(basis for basis in order if basis in bases)
        return pure_claim(self.epsilon, "shuffler", worst, "one counter per bit, Σε_j ≤ ε")

    @property
    def bits_per_message(self) -> int:
        return 1 + (len(self.counters) - 1).bit_length()

    def _bits(self, values: NDArray[Any], entropy: Entropy) -> NDArray[np.int64]:
        units = round_randomly(unit_values(values), self.units, entropy)
        return units[:, None] >> np.arange(len(self.counters) - 1, -1, -1) & 1

    def randomize(self, value: float, entropy: Entropy = SYSTEM) -> Messages:
        """One user's messages as rows (bit number, message of its counter)."""
        rows = []
        for number, bit in enumerate(self._bits(np.array([value]), entropy)[0]):
            sent = self.counters[number].randomize(int(bit), entropy)
            rows.append(np.stack([np.full(len(sent), number), sent], axis=1))
        return np.concatenate(rows)

    def collect(self, messages: Messages, users: int) -> Bag:
        ones = messages[messages[:, 1] == 1, 0]
        return Bag(users, np.bincount(ones, minlength=len(self.counters)))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        bits = self._bits(values, entropy)
        sums = zip(self.counters, bits.sum(axis=0), strict=True)
        drawn = [counter.draw(int(ones), len(bits), entropy)[0] for counter, ones in sums]
        return Bag(len(bits), np.array(drawn), entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        sums = [
            counter.estimate(np.array([count]), bag.users)
            for counter, count in zip(self.counters, bag.counts, strict=True)
        ]
        return np.array([float(self.weights @ np.array(sums))])

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        errors = [counter.mean_squared_error(users) for counter in self.counters]
        return float(self.weights**2 @ np.array(errors)) + users / (4 * self.units**2)

    def messages_per_user(self) -> float:
        return sum(counter.messages(0) for counter in self.counters)
