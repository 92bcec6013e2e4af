"""Which digits, and how to share ε, error and muting among them (MATH §9). Floats that propose.

For a given radix the unknowns are each digit's share of ε, the gap Δ = ε − b of its −1 noise and
its share of the error that muting may cost: 3k − 2 numbers for k digits. The cost of a point is
what no flood can beat (the limit of MATH §3 in closed form), so thousands of points are judged at
once: all corners of a cube around the best point, which shrinks when none of them is better.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shuffledp.planning.paper_search import noise_variance
from shuffledp.planning.reserve import reserve
from shuffledp.planning.special import Floats

BASES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 21, 25, 33)
MOST_DIGITS = 4
CORNERS = 2187  # of a cube at most; in more dimensions the axes alone are tried


@dataclass(frozen=True, kw_only=True)
class SumTask:
    """What the digits together must achieve, for values in [0, 1]."""

    users: int
    expected: int
    epsilon: float
    mse: float
    relative: float | None = None
    padded: bool = False
    """Whether messages are counted in a padded report, or on average."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """A proposal: one entry per digit."""

    radix: tuple[int, ...]
    messages: float
    epsilon: tuple[float, ...]
    down_epsilon: tuple[float, ...]
    odds: tuple[float, ...]
    stand_in: tuple[float, ...]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(largest value, stand-in) of each digit."""
        return [(base - 1, int(h)) for base, h in zip(self.radix, self.stand_in, strict=True)]


def radices(task: SumTask) -> Iterable[tuple[int, ...]]:
    """Mixed radices, large bases first, whose rounding takes a fair part of the error."""
    first, later = sorted(BASES, reverse=True), [base for base in BASES[::-1] if base <= 9]
    for digits in range(MOST_DIGITS):
        for top in first:
            below = [base for base in later if base <= top]
            for rest in itertools.combinations_with_replacement(below, digits):
                grid = math.prod((top, *rest)) - 1
                rounding = task.expected / (4 * grid * grid)
                if rounding < 0.6 * task.mse and (rounding > 0.004 * task.mse or grid <= 8):
                    yield (top, *rest)


class Landscape:
    """The cost of points in the cube of unknowns, for one radix."""

    def __init__(self, task: SumTask, radix: Sequence[int]) -> None:
        self.task = task
        self.radix = tuple(radix)
        self.largest = np.array(radix, float) - 1
        self.grid = math.prod(radix) - 1
        weights = [math.prod(radix[place + 1 :]) for place in range(len(radix))]
        self.weight = np.array(weights, float) / self.grid
        self.stand_in = np.floor(self.largest / 2) if task.relative is None else 0 * self.largest
        self.farthest = np.maximum(self.stand_in, self.largest - self.stand_in)
        self.left = task.mse - task.expected / (4 * self.grid * self.grid)

    @property
    def size(self) -> int:
        return len(self.radix) * (3 if self.task.relative is None else 2)

    def start(self) -> Floats:
        """Equal gaps; ε and muting shared by the digits' weight in the sum."""
        share = np.log((self.weight * self.largest) ** (2 / 3))
        gap = np.full(len(self.radix), math.log(0.3))
        parts = [share - share[0], gap]
        if self.task.relative is None:
            parts.append(np.zeros(len(self.radix)))
        return np.concatenate(parts)

    def unpack(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """(ε, b, q/(1−q)) per digit, at each point; odds ≤ 0 where the error is exceeded."""
        task, k = self.task, len(self.radix)
        weights = np.exp(points[:, :k] - points[:, :k].max(axis=1, keepdims=True))
        epsilon = task.epsilon * weights / weights.sum(axis=1, keepdims=True)
        b = epsilon - np.minimum(epsilon * np.exp(points[:, k : 2 * k]), 0.98 * epsilon)
        noise = noise_variance(epsilon / self.largest) + noise_variance(b / self.largest)
        noise = task.expected / task.users * noise * self.weight**2
        left = (self.left - noise.sum(axis=1))[:, None]
        if task.relative is not None:
            odds = self._tolerated(noise)
        else:
            share = np.exp(points[:, 2 * k :] - points[:, 2 * k :].max(axis=1, keepdims=True))
            share = share / share.sum(axis=1, keepdims=True)
            odds = left * share / (self.weight**2 * task.expected * self.farthest**2 + 2 * noise)
        return epsilon, b, np.where(left > 0, np.minimum(odds, 1.0), -1.0)

    def _tolerated(self, noise: Floats) -> Floats:
        """q/(1−q) that a relative tolerance leaves beside noise that muting itself scales up."""
        task, odds = self.task, np.zeros_like(noise)
        assert task.relative is not None
        for _ in range(5):
            left = (self.left - (noise * (1 + odds) ** 2).sum(axis=1))[:, None]
            # the muted part of a true sum c is at most κ·c, and max(κc − R²c²) = κ²/(4R²)
            reach = 2 * task.relative * np.sqrt(np.maximum(left, 0.0))
            far = left / task.expected + task.relative**2 * task.expected
            kappa = np.where(reach <= 2 * task.relative**2 * task.expected, reach, far)
            found = np.clip(kappa * 0.98 / (self.weight * self.largest), 0.0, 1.0)
            odds = found if not odds.any() else (odds + found) / 2
        return odds

    def cost(self, points: Floats) -> Floats:
        """Messages, counted as the task says, at the limit; ∞ where the error is exceeded."""
        epsilon, b, odds = self.unpack(points)
        possible = (odds > 0).all(axis=1)
        odds = np.where(odds > 0, odds, 1.0)
        log_k = np.log(np.expm1(epsilon) * odds) - b * self.stand_in / self.largest
        sent = (2 * limit_lumps(log_k, epsilon - b) + 1) * self.largest + self.stand_in
        if self.task.padded:
            decay = (b / self.largest).min(axis=1)
            cost = sent.sum(axis=1) + reserve(decay, 0 * decay, 1, self.task.users)
        else:
            cost = (sent / (1 + odds)).sum(axis=1)
        return np.where(possible, cost, np.inf)

    def shares(self, point: Floats) -> Shares:
        """A point in words."""
        epsilon, b, odds = (tuple(row[0].tolist()) for row in self.unpack(point[None, :]))
        cost = float(self.cost(point[None, :])[0])
        return Shares(
            radix=self.radix,
            messages=cost,
            epsilon=epsilon,
            down_epsilon=b,
            odds=odds,
            stand_in=tuple(self.stand_in.tolist()),
        )


def limit_lumps(log_k: Floats, gap: Floats) -> Floats:
    """The least real s/D that any flood allows: uΔ + ln K + ln u + (u+1) ln(1+1/u) = 0, solved by
    Newton's steps (the left side is concave and rises, so they close in from below)."""
    u = np.maximum(-log_k / gap, 1e-3)
    for _ in range(8):
        rest = u * gap + log_k + np.log(u) + (u + 1) * np.log1p(1 / u)
        u = np.maximum(u - rest / (gap + np.log1p(1 / u)), 1e-6)
    return u


def search(landscape: Landscape, rounds: int) -> tuple[float, Floats]:
    """The cheapest point that so many rounds find, from the usual start."""
    size = landscape.size
    if 3**size <= CORNERS:
        moves = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=size)))
    else:
        moves = np.concatenate([np.eye(size), -np.eye(size), np.zeros((1, size))])
    point, step = landscape.start(), 0.8
    best = float(landscape.cost(point[None, :])[0])
    for _ in range(rounds):
        candidates = point + step * moves
        costs = landscape.cost(candidates)
        at = int(np.argmin(costs))
        if costs[at] < best * (1 - 1e-9):
            best, point = float(costs[at]), candidates[at]
        else:
            step /= 2
    return best, point


def best_shares(
    task: SumTask, fixed_radix: Sequence[int] | None = None, quick: bool = False
) -> Shares | None:
    """The cheapest radix and shares, or None if no radix meets the error; `quick` looks at fewer
    points."""
    if fixed_radix is not None:
        landscape = Landscape(task, fixed_radix)
        cost, point = search(landscape, 400)
        return landscape.shares(point) if math.isfinite(cost) else None
    rough = []
    for radix in radices(task):
        cost, _ = search(Landscape(task, radix), 3 if quick else 7)
        rough.append((cost, radix))
    finalists = [radix for cost, radix in sorted(rough)[: 3 if quick else 8] if math.isfinite(cost)]
    fine = [(*search(Landscape(task, radix), 60), radix) for radix in finalists]
    if not fine:
        return None
    cost, point, radix = min(fine, key=lambda entry: entry[0])
    return Landscape(task, radix).shares(point)
