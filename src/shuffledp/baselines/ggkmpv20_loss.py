"""The max-divergence of [GGKMPV20]'s view: the number of ones among n(2w+1) bits.

One user's generating function is P_x(z) = p D(z) + (1−p) z^(w+x); with m ones among the others
the view of a user with x has P_x P₀^(n−1−m) P₁^m. Its coefficients span thousands of orders of
magnitude, so they are computed under exponential tilts z → z e^θ: each tilt gives the
coefficients around its own mean with a relative error below 10⁻⁸ (those within 10⁻⁷ of the
peak are taken), and the tilts are stepped until every coefficient is covered.

A tilt also shows what is necessary: summing P(t) ≤ e^ε P′(t) with weights z^t gives
|ln P₁(z)/P₀(z)| ≤ ε for every z > 0, with any number of users.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

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
    """The largest |log ratio| found, and whether every possible view was looked at."""

    value: float
    covered: bool


def tilted(law: Floats, theta: float) -> tuple[Floats, float]:
    """(the law multiplied by e^(θ·k) and normalised, the log of the normaliser)."""
    logs = np.log(law) + theta * np.arange(law.size)
    top = float(logs.max())
    weights = np.exp(logs - top)
    total = float(weights.sum())
    return weights / total, top + math.log(total)


def window(shape: Shape, ones: int, theta: float) -> tuple[int, Floats, float, float]:
    """(first view, log ratio P₁/P₀ of the views that this tilt shows, mean, deviation)."""
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
    return first + int(seen[0]), _unbroken(seen, ratio), mean, deviation


def _unbroken(seen: NDArray[np.int64], ratio: Floats) -> Floats:
    """The ratios of consecutive views, with NaN for those that the tilt does not show."""
    full = np.full(int(seen[-1] - seen[0]) + 1, np.nan)
    full[seen - seen[0]] = ratio
    return full


def bulk_loss(shape: Shape, ones: int) -> float:
    """The largest |ln P₁/P₀| over views near the mean: under tilts up to the noise's own slope."""
    tilts = np.linspace(-1, 1, 11) * shape.slope
    return max(float(np.nanmax(np.abs(window(shape, ones, float(t))[1]))) for t in tilts)


def direct_loss(shape: Shape, ones: int) -> Loss:
    """The same for a few users, whose least likely view a float still holds: plain convolutions
    of positive numbers, with a relative error of a few thousand roundings."""
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
            first, ratio, _, deviation = window(shape, ones, theta)
            last = first + len(ratio) - 1
            gap = reached is not None and not first <= reached + 1 <= last + 2
            if gap and step > 1e-6:  # went too far: come back half the way
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


def shape_of(users: int, noisy: Fraction, slope: Fraction, width: int) -> Shape:
    """Exact parameters as floats."""
    return Shape(users=users, noisy=float(noisy), slope=float(slope), width=width)
