"""[GGKMPV20] Pure DP summation from anonymous messages (Ghazi, Golowich, Kumar, Manurangsi, Pagh,
Velingker, ITC 2020): pure ε with a fixed number of one-bit messages per user.

Every user sends 2w+1 bits. With probability 1−p there are w + x ones among them; with probability
p there are Z, drawn from a discrete Laplace law cut to 0..2w+1, whatever x is: so even the border
of the support is reached with the same probability by both inputs. The theorem's constants are not
available to us; the parameters here are calibrated by the computed max-divergence of the view.

The view is the number of ones among n(2w+1) bits. One user's generating function is
P_x(z) = p D(z) + (1−p) z^(w+x); with m ones among the others the view of a user with x has
P_x P₀^(n−1−m) P₁^m. Its coefficients span thousands of orders of magnitude, so they are computed
under exponential tilts z → z e^θ: each tilt gives the coefficients around its own mean with a
relative error below 10⁻⁸ (those within 10⁻⁷ of the peak are taken), and the tilts are stepped until
every coefficient is covered. A tilt also shows what is necessary: summing P(t) ≤ e^ε P′(t) with
weights z^t gives |ln P₁(z)/P₀(z)| ≤ ε for every z > 0, with any number of users.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Baseline, Counter, Messages, QueryName, Setting, needs
from shuffledp.baselines.buckets import numbered
from shuffledp.baselines.claim import Basis, Claim, pure_claim
from shuffledp.baselines.draws import (
    Counts,
    draw,
    round_randomly,
    successes,
    whole_values,
)
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.bisection import bisect
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, round_to, to_float
from shuffledp.numbers.laws import Bernoulli, Law


@dataclass(frozen=True)
class CutLaplace(Law):
    """On 0..2w+1, mass proportional to e^(−slope·|k − (w + ½)|): symmetric about w + ½."""

    width: int
    """w: the law lives on 0..2w+1."""
    slope: Fraction
    """1/σ: how fast the probabilities fall off."""

    def __post_init__(self) -> None:
        if self.width < 0 or self.slope <= 0:
            raise ParameterError(
                "A cut Laplace law needs a width of at least 0 and a slope above 0."
            )

    @property
    def last(self) -> int:
        return 2 * self.width + 1

    def _half(self) -> arb:
        """Σ e^(−slope·j) for j = 0..w: half of the mass, in units of the middle's."""
        return self._sum(self.width + 1)

    def _sum(self, terms: int) -> arb:
        a = ball(self.slope)
        return (-a * terms).expm1() / (-a).expm1()

    def pmf(self, k: int) -> arb:
        if k < 0 or k > self.last:
            return arb(0)
        distance = self.width - k if k <= self.width else k - self.width - 1
        return (-ball(self.slope * distance)).exp() / (2 * self._half())

    def cdf(self, k: int) -> arb:
        outside = self._outside(k)
        if outside is not None:
            return outside
        if k > self.width:
            return 1 - self.cdf(self.last - 1 - k)
        lowest = (-ball(self.slope * (self.width - k))).exp()
        return lowest * self._sum(k + 1) / (2 * self._half())

    def ratio(self, k: int) -> arb:
        if k == self.width:
            return arb(1)
        return ball(self.slope if k < self.width else -self.slope).exp()

    def mean(self) -> arb:
        return ball(Fraction(2 * self.width + 1, 2))

    def variance(self) -> arb:
        total = arb(0)
        for distance in range(self.width + 1):
            weight = (-ball(self.slope * distance)).exp()
            total += weight * ball(Fraction(2 * distance + 1, 2) ** 2)
        return total / self._half()


Floats = NDArray[np.float64]

LEAST_OF_PEAK = 1e-7  # smaller probabilities would show the rounding of the transform
TILT_STEP = 4.0  # standard deviations between two tilts
MOST_TILTS = 4000
LEAST_FLOAT = 1e-280  # smaller floats lose digits


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The parameters of [GGKMPV20] as floats."""

    users: int
    noisy: float
    """p: the probability of sending only noise."""
    slope: float
    """1/σ: how fast the noise falls off."""
    width: int
    """w: every user sends 2w + 1 bits."""

    @property
    def noise(self) -> Floats:
        """D: the probabilities of 0..2w+1 ones, for a user that sends only noise."""
        away = np.abs(np.arange(2 * self.width + 2) - (self.width + 0.5)) - 0.5
        weights = np.exp(-self.slope * away)
        result: Floats = weights / weights.sum()
        return result

    def one_user(self, value: int) -> Floats:
        """The probabilities of how many ones a user with this value sends."""
        law = self.noisy * self.noise
        law[self.width + value] += 1 - self.noisy
        return law


@dataclass(frozen=True)
class Loss:
    """The largest |log ratio| found, and whether every possible view was checked."""

    value: float
    covered: bool


def tilted(law: Floats, theta: float) -> tuple[Floats, float]:
    """(the law multiplied by e^(θ·k) and normalised, the log of the normaliser)."""
    logs = np.log(law) + theta * np.arange(law.size)
    top = float(logs.max())
    weights = np.exp(logs - top)
    total = float(weights.sum())
    return weights / total, top + math.log(total)


def window(shape: Shape, ones: int, theta: float) -> tuple[int, Floats, float]:
    """(first view, log ratio P₁/P₀ of the views that this tilt shows, deviation)."""
    laws = [tilted(shape.one_user(value), theta) for value in (0, 1)]
    others = (shape.users - 1 - ones, ones)
    places = np.arange(2 * shape.width + 2)
    means = [float(law @ places) for law, _ in laws]
    spreads = [float(law @ places**2) - mean**2 for (law, _), mean in zip(laws, means, strict=True)]
    mean = sum(count * m for count, m in zip(others, means, strict=True)) + sum(means) / 2
    deviation = math.sqrt(max(shape.users * max(spreads), 0.01))
    size = 1 << math.ceil(math.log2(24 * deviation + 8 * (shape.width + 1) + 64))
    first = int(mean) - size // 2
    bases = [np.fft.rfft(law, size) for law, _ in laws]
    with np.errstate(divide="ignore"):
        rest = np.exp(others[0] * np.log(bases[0]) + others[1] * np.log(bases[1]))
    views = [np.roll(np.fft.irfft(rest * base, size), -(first % size)) for base in bases]
    seen = np.flatnonzero(np.minimum(*(view / view.max() for view in views)) > LEAST_OF_PEAK)
    ratio = np.log(views[1][seen]) - np.log(views[0][seen]) + laws[1][1] - laws[0][1]
    unbroken = np.full(int(seen[-1] - seen[0]) + 1, np.nan)  # NaN: this tilt does not show it
    unbroken[seen - seen[0]] = ratio
    return first + int(seen[0]), unbroken, deviation


def bulk_loss(shape: Shape, ones: int) -> float:
    """The largest |ln P₁/P₀| over views near the mean: under tilts up to the noise's own slope."""
    tilts = np.linspace(-1, 1, 11) * shape.slope
    return max(float(np.nanmax(np.abs(window(shape, ones, float(t))[1]))) for t in tilts)


def direct_loss(shape: Shape, ones: int) -> Loss:
    """The same for a few users, where floats can still represent the least likely view: plain
    convolutions of positive numbers, with a relative error of a few thousand roundings."""
    zero, one = (shape.one_user(value) for value in (0, 1))
    rest = np.ones(1)
    for law in [zero] * (shape.users - 1 - ones) + [one] * ones:
        rest = np.convolve(rest, law)
    ratio = np.log(np.convolve(rest, one)) - np.log(np.convolve(rest, zero))
    return Loss(float(np.abs(ratio).max()), covered=True)


def loss(shape: Shape, ones: int) -> Loss:
    """The largest |ln P₁/P₀| over all possible views."""
    rarest = float(shape.one_user(0).min())
    if shape.users * math.log(rarest) > math.log(LEAST_FLOAT):
        return direct_loss(shape, ones)
    largest = shape.users * (2 * shape.width + 1)
    seen = np.zeros(largest + 1, bool)
    worst = 0.0
    for direction in (1, -1):
        theta, step, reached = 0.0, 0.0, None
        for _ in range(MOST_TILTS):
            first, ratio, deviation = window(shape, ones, theta)
            last = first + len(ratio) - 1
            gap = reached is not None and not first <= reached + 1 <= last + 2
            if gap and step > 1e-6:  # went too far: go back half the way
                theta, step = theta - direction * step / 2, step / 2
                continue
            worst = max(worst, float(np.nanmax(np.abs(ratio))))
            inside = np.flatnonzero(~np.isnan(ratio)) + first
            seen[inside[(inside >= 0) & (inside <= largest)]] = True
            reached = last if direction > 0 else first - 2
            if seen[largest if direction > 0 else 0]:
                break
            step = min(TILT_STEP / deviation, 0.5)
            theta += direction * step
    return Loss(worst, bool(seen.all()))


def least_noisy(epsilon: float, slope: float, width: int) -> float:
    """The smallest p that the tilts allow: p/(1−p) ≥ (e^(θ/2) − e^(ε−θ/2))/((e^ε−1) E e^(θ(Z−w−½)))
    for every θ > ε."""
    theta = epsilon + np.linspace(0, 1, 240) ** 2 * (8 + 6 * epsilon)
    halves = np.arange(width + 1) + 0.5
    weights = -slope * np.arange(width + 1)
    grid = theta[:, None] * halves + weights
    top = grid.max(axis=1)
    moment = top + np.log(np.exp(grid - top[:, None]).sum(axis=1))
    moment -= math.log(2 * np.exp(weights).sum())
    odds = np.exp(theta / 2 - moment) * -np.expm1(epsilon - theta) / math.expm1(epsilon)
    most = float(odds.max())
    return most / (1 + most)


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
    def plan(cls, setting: Setting) -> GGKMPV20:
        """The counter with the fewest messages whose error is within 5 % of the least."""
        return calibrated(setting.users, setting.epsilon)

    @cached_property
    def claim(self) -> Claim:
        shape = Shape(
            users=self.users, noisy=float(self.noisy), slope=float(self.slope), width=self.width
        )
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

    def keeps(log_noisy: float) -> bool:
        shape = Shape(users=users, noisy=math.exp(log_noisy), slope=slope, width=wide)
        return bool(bulk_loss(shape, 0) <= epsilon * LOSS_MARGIN)

    return math.exp(bisect(keeps, low, high, width=0.03))


@dataclass(frozen=True)
class BitByBit(Baseline):
    """A value in [0, 1], rounded to a few bits, each sent through a separate counter."""

    counters: tuple[GGKMPV20, ...]
    epsilon: Fraction
    query: ClassVar[QueryName] = "real-sum"

    @classmethod
    def plan(cls, setting: Setting) -> BitByBit:
        """The protocol with ½ log₂ n bits; bit j, of weight 2^−j, gets ε in proportion to
        2^(−2j/3), which balances the errors where the error is proportional to 1/ε."""
        bits = max(1, math.ceil(math.log2(setting.users) / 2))
        weights = [Fraction(2.0 ** (-2 * j / 3)).limit_denominator(1000) for j in range(bits)]
        parts = [setting.epsilon * weight / sum(weights) for weight in weights]
        parts = [round_to(float(part), 4, up=False) for part in parts]
        counters = [calibrated(setting.users, part, 2.0, coarse=True) for part in parts]
        return cls(tuple(counters), setting.epsilon)

    @property
    def users(self) -> int:  # type: ignore[override]
        return self.counters[0].users

    @property
    def units(self) -> int:
        """The largest whole number that the bits can represent."""
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
        units = round_randomly(values, self.units, entropy)
        return units[:, None] >> np.arange(len(self.counters) - 1, -1, -1) & 1

    def randomize(self, value: float, entropy: Entropy = SYSTEM) -> Messages:
        """One user's messages as rows (bit number, message of its counter)."""
        bits = self._bits(np.array([value]), entropy)[0]
        return numbered(
            counter.randomize(int(bit), entropy)
            for counter, bit in zip(self.counters, bits, strict=True)
        )

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
