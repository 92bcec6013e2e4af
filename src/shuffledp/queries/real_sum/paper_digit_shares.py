"""How to share ε, error and muting among digits that are paper's cells (MATH §9). Floats that
propose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shuffledp.cells.paper.reserve import reserve
from shuffledp.cells.paper.search import noise_variance
from shuffledp.numbers.special import Floats
from shuffledp.queries.real_sum.digits import (
    DigitCosts,
    SumTask,
    best_radices,
    search,
    shares_of_one,
)

SEARCH_ROUNDS = ((0, 200), (3, 40), (7, 8))
"""Rounds of the search, and how many radices stay."""
QUICK_ROUNDS = ((0, 60), (3, 3))
"""The same where many errors are looked at."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """A proposal: one entry per digit."""

    radix: tuple[int, ...]
    dither: int
    messages: float
    epsilon: tuple[float, ...]
    down_epsilon: tuple[float, ...]
    odds: tuple[float, ...]
    stand_in: tuple[float, ...]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(largest value, stand-in) of each digit."""
        return [(base - 1, int(h)) for base, h in zip(self.radix, self.stand_in, strict=True)]


class PaperDigitCosts(DigitCosts):
    """The unknowns of each digit: its share of ε, the gap Δ = ε − b of its −1 noise, and its share
    of the error that muting may cost. The cost is what no flood can beat (the limit of MATH §3)."""

    def __init__(self, task: SumTask, radix: Sequence[int]) -> None:
        super().__init__(task, radix)
        self.stand_in = np.floor(self.largest / 2) if task.relative is None else 0 * self.largest
        self.farthest = np.maximum(self.stand_in, self.largest - self.stand_in)

    @property
    def size(self) -> int:
        return len(self.radix) * (3 if self.task.relative is None else 2)

    def start(self) -> Floats:
        """Equal gaps; ε and muting shared by the digits' weight in the sum."""
        gap = np.full(len(self.radix), math.log(0.3))
        parts = [self.equal_start(), gap]
        if self.task.relative is None:
            parts.append(np.zeros(len(self.radix)))
        return np.concatenate(parts)

    def unpack(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """(ε, b, q/(1−q)) per digit, at each point; odds ≤ 0 where the error is exceeded."""
        task, k = self.task, len(self.radix)
        epsilon = self.epsilon * shares_of_one(points[:, :k])
        b = epsilon - np.minimum(epsilon * np.exp(points[:, k : 2 * k]), 0.98 * epsilon)
        noise = noise_variance(epsilon / self.largest) + noise_variance(b / self.largest)
        noise = task.expected / task.users * noise * self.weight**2
        left = (self.left - noise.sum(axis=1))[:, None]
        if task.relative is not None:
            odds = self._tolerated(noise)
        else:
            share = shares_of_one(points[:, 2 * k :])
            odds = left * share / (self.weight**2 * task.expected * self.farthest**2 + 2 * noise)
        return epsilon, b, np.where(left > 0, np.minimum(odds, 1.0), -1.0)

    def _tolerated(self, noise: Floats) -> Floats:
        """q/(1−q) that a relative tolerance leaves beside noise that muting itself scales up."""
        task, odds = self.task, np.zeros_like(noise)
        assert task.relative is not None
        r = float(task.relative)
        for _ in range(5):
            left = (self.left - (noise * (1 + odds) ** 2).sum(axis=1))[:, None]
            # the muted part of a true sum c is at most κ·c, and max(κc − R²c²) = κ²/(4R²)
            reach = 2 * r * np.sqrt(np.maximum(left, 0.0))
            far = left / task.expected + r * r * task.expected
            kappa = np.where(reach <= 2 * r * r * task.expected, reach, far)
            found = np.clip(kappa * 0.98 / (self.weight * self.largest), 0.0, 1.0)
            odds = found if not odds.any() else (odds + found) / 2
        return odds

    def cost(self, points: Floats) -> Floats:
        """Messages to the cells, counted as the task says, at the limit; ∞ where the error is
        exceeded."""
        epsilon, b, odds = self.unpack(points)
        possible = (odds > 0).all(axis=1)
        odds = np.where(odds > 0, odds, 1.0)
        log_k = np.log(np.expm1(epsilon) * odds) - b * self.stand_in / self.largest
        sent = (2 * least_pairs(log_k, epsilon - b) + 1) * self.largest + self.stand_in
        if self.task.padded:
            decay = (b / self.largest).min(axis=1)
            cost = sent.sum(axis=1) + reserve(decay, 0 * decay, 1, self.task.users)
        else:
            cost = (sent / (1 + odds)).sum(axis=1)
        return np.where(possible, cost, np.inf)

    def shares(self, point: Floats) -> Shares:
        """What a point proposes for each digit, with the dither that is cheapest there."""
        cost = self.take_dither(point)
        epsilon, b, odds = (tuple(row[0].tolist()) for row in self.unpack(point[None, :]))
        return Shares(
            radix=self.radix,
            dither=self.dither,
            messages=cost,
            epsilon=epsilon,
            down_epsilon=b,
            odds=odds,
            stand_in=tuple(self.stand_in.tolist()),
        )


def least_pairs(log_k: Floats, gap: Floats) -> Floats:
    """The least real s/D that any flood allows: uΔ + ln K + ln u + (u+1) ln(1+1/u) = 0, solved by
    Newton's steps (the left side is concave and rises, so they close in from below)."""
    u = np.maximum(-log_k / gap, 1e-3)
    for _ in range(8):
        rest = u * gap + log_k + np.log(u) + (u + 1) * np.log1p(1 / u)
        u = np.maximum(u - rest / (gap + np.log1p(1 / u)), 1e-6)
    return u


def best_shares(task: SumTask, quick: bool = False) -> Shares | None:
    """The cheapest radix and shares, or None if no radix meets the error; `quick` looks at fewer
    points."""
    if task.radix is not None:
        costs = PaperDigitCosts(task, task.radix)
        cost, point = search(costs, 400)
        return costs.shares(point) if math.isfinite(cost) else None
    finalists = best_radices(task, PaperDigitCosts, QUICK_ROUNDS if quick else SEARCH_ROUNDS)
    fine = [(*search(costs, 60), costs.radix) for costs in finalists]
    if not fine:
        return None
    cost, point, radix = min(fine, key=lambda entry: entry[0])
    return PaperDigitCosts(task, radix).shares(point)
